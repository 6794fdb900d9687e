import { availableParallelism } from 'node:os';

// Deadlines inside the system, of `until` and of tests are so many times longer than on an idle machine. One that stands
// still for seconds, or does other work beside the tests, must not make them fail.
process.env.DEADLINE_SCALE ??= '4';

/** @type {import('jest').Config} */
export default {
  // Test files of a worker share the modules of Node. In a global environment of its own for each file, as jest's own
  // runner makes it, the modules are loaded again each time, which took more than half of the time.
  runner: 'jest-light-runner',
  setupFiles: ['<rootDir>/test/kit/jest/setup.ts'],
  // Suites often wait: for a lease, a retry, a process that starts. Two workers more than there are cores use that time.
  maxWorkers: availableParallelism() + 2,
  roots: ['gateway', 'services', 'test', 'deploy', 'portal'].map((folder) => `<rootDir>/${folder}`),
  globalSetup: '<rootDir>/test/kit/jest/global-setup.ts',
  globalTeardown: '<rootDir>/test/kit/jest/global-teardown.ts',
  testMatch: ['**/*.test.ts'],
  // These need Java, kubectl or chromium: `npm run test:kafka`, `test:deploy`, `test:mcp`; attacks are `test:security`, `test:cost`.
  testPathIgnorePatterns: ['/node_modules/', '\\.(kafka|tools|mcp|security|cost)\\.test\\.ts$'],
  modulePathIgnorePatterns: [
    '<rootDir>/test/mcp-clients/node_modules',
    '<rootDir>/test/openapi-clients/node_modules',
    '<rootDir>/test/openapi-clients/.venv',
  ],
  // Node runs the sources as they are.
  transform: {},
};
