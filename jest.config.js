import { availableParallelism } from 'node:os';

/** @type {import('jest').Config} */
export default {
  testEnvironment: 'node',
  // Jest leaves one core free, which would be half of a small machine.
  maxWorkers: Math.max(2, availableParallelism() - 1),
  roots: ['gateway', 'services', 'test', 'deploy'].map((folder) => `<rootDir>/${folder}`),
  globalSetup: '<rootDir>/test/support/global-setup.ts',
  globalTeardown: '<rootDir>/test/support/global-teardown.ts',
  testMatch: ['**/*.test.ts'],
  // These need Java, kubectl or chromium: `npm run test:kafka`, `test:deploy`, `test:mcp`; attacks are `test:security`, `test:cost`.
  testPathIgnorePatterns: ['/node_modules/', '\\.(kafka|tools|mcp|security|cost)\\.test\\.ts$'],
  modulePathIgnorePatterns: ['<rootDir>/test/mcp-clients/node_modules'],
  // Ends what hangs; how fast something is, no test says.
  testTimeout: 60_000,
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
