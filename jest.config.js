import { availableParallelism } from 'node:os';

// Deadlines inside the system, of `until` and of tests are so many times longer than on an idle machine. One that stands
// still for seconds, or does other work beside the tests, must not make them fail.
process.env.DEADLINE_SCALE ??= '4';

/** @type {import('jest').Config} */
export default {
  testEnvironment: 'node',
  // A quarter of the time suites wait: for a lease, a retry, a process that starts. One worker more than
  // there are cores uses that time.
  maxWorkers: availableParallelism() + 1,
  // V8 collects the modules of old suites late: a worker holds two gigabytes, and to free them takes longer
  // than the default of 500 ms. A worker with an open handle exceeds this too, and jest says so. Milliseconds.
  workerGracefulExitTimeout: 30_000,
  // A worker that holds this much is replaced after its suite. Otherwise a suite that needs much memory may spend its
  // time in the collector: at the end of a run `large-reads` took two minutes, alone six seconds.
  workerIdleMemoryLimit: '1500MB',
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
  // Ends what hangs; how fast something is, no test says. Milliseconds.
  testTimeout: 120_000 * Number(process.env.DEADLINE_SCALE),
  extensionsToTreatAsEsm: ['.ts'],
  transform: {
    '\\.ts$': [
      '@swc/jest',
      {
        jsc: {
          parser: { syntax: 'typescript' },
          target: 'es2024',
          experimental: { keepImportAttributes: true },
        },
        module: { type: 'es6' },
      },
    ],
  },
};
