'use strict';

/**
 * Why a call failed. Match on `code`, which is stable; the message is for people.
 *
 * A server that cannot be reached, or does not answer in time, is the code `unavailable` without a status.
 */
class LingerError extends Error {
  /**
   * @param {string} code
   * @param {string} message
   * @param {{status?: number, field?: string, cause?: unknown}} [more]
   */
  constructor(code, message, { status, field, cause } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'LingerError';
    this.code = code;
    this.status = status;
    this.field = field;
  }

  /**
   * Whether an error is one of Linger's, and if codes are given, one with such a code.
   *
   * @param {unknown} error
   * @param {...string} codes
   * @returns {error is LingerError}
   */
  static is(error, ...codes) {
    return error instanceof LingerError && (codes.length === 0 || codes.includes(error.code));
  }

  /** As the API writes it. */
  toJSON() {
    return { code: this.code, message: this.message, field: this.field };
  }
}

module.exports = { LingerError };
