'use strict';

const SIGNALS = ['SIGTERM', 'SIGINT'];

/**
 * Has it called on the first SIGTERM or SIGINT; a second one ends the process as ever.
 *
 * @param {() => void} stop
 * @returns {() => void} stops listening
 */
function onSignals(stop) {
  const deafen = () => SIGNALS.forEach((name) => process.off(name, heard));
  const heard = () => {
    deafen();
    stop();
  };
  SIGNALS.forEach((name) => process.on(name, heard));
  return deafen;
}

module.exports = { onSignals };
