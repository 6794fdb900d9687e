import everyday from './jest.config.js';

/** Tests of what is deployed, with the tools of those who deploy. Needs kubectl, kubernetes-validate, Java 17 and Maven. */
const { globalSetup, globalTeardown, ...common } = everyday;

/** @type {import('jest').Config} */
export default {
  ...common,
  roots: ['<rootDir>/test/deployment'],
  testMatch: ['**/*.tools.test.ts'],
  testPathIgnorePatterns: ['/node_modules/'],
  maxWorkers: 1,
};
