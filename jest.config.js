/** @type {import('jest').Config} */
export default {
  testEnvironment: 'node',
  roots: ['gateway', 'services', 'test', 'deploy'].map((folder) => `<rootDir>/${folder}`),
  globalSetup: '<rootDir>/test/support/global-setup.ts',
  globalTeardown: '<rootDir>/test/support/global-teardown.ts',
  testMatch: ['**/*.test.ts'],
  // These need Java or kubectl: `npm run test:kafka`, `npm run test:deploy`.
  testPathIgnorePatterns: ['/node_modules/', '\\.(kafka|tools)\\.test\\.ts$'],
  testTimeout: 20_000,
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
