import everyday from './jest.config.js';

/** Attacks from outside: credentials, tenants, limits, hostile bodies and paths, slow connections, costs. */
/** @type {import('jest').Config} */
export default {
  ...everyday,
  roots: ['<rootDir>/test/security'],
  testMatch: ['**/*.security.test.ts'],
  testPathIgnorePatterns: ['/node_modules/'],
  // Costs and memory are measured: nothing else of ours runs beside them.
  maxWorkers: 1,
};
