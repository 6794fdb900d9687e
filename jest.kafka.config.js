import everyday from './jest.config.js';

/** Tests over a real broker, which the tests start themselves. Needs Java 17 and Maven. */
/** @type {import('jest').Config} */
export default {
  ...everyday,
  testMatch: ['**/*.kafka.test.ts'],
  testPathIgnorePatterns: ['/node_modules/'],
  // Each file has brokers of its own, and mostly waits for them.
  maxWorkers: 2,
};
