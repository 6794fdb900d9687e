import everyday from './jest.config.js';

/**
 * Sign-in and the MCP server, seen from outside: a browser, the official client, and the tools of
 * others in test/mcp-clients. One stack serves all. Needs chromium.
 */
/** @type {import('jest').Config} */
export default {
  ...everyday,
  globalSetup: '<rootDir>/test/kit/jest/global-mcp-setup.ts',
  globalTeardown: '<rootDir>/test/kit/jest/global-mcp-teardown.ts',
  roots: ['<rootDir>/test'],
  testMatch: ['**/*.mcp.test.ts'],
  testPathIgnorePatterns: ['/node_modules/'],
  maxWorkers: 1,
};
