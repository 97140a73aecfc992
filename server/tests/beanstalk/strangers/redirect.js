// Has whoever connects to beanstalkd's own port come to the one that BEANSTALKD_PORT names: suites
// that others wrote know no other, and tests run side by side.
const net = require("node:net");

const connect = net.Socket.prototype.connect;
net.Socket.prototype.connect = function (...args) {
    // What `net.connect` was given comes as a list of options and listener.
    const options = Array.isArray(args[0]) ? args[0][0] : args[0];
    if (options.port === 11300) {
        options.port = Number(process.env.BEANSTALKD_PORT);
    }
    return connect.apply(this, args);
};
