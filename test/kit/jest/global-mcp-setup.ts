import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startTestStack } from '../stack.ts';
import { COMPILE_CACHE } from './compile-cache.ts';

/** Starts one stack for the run, unless TEST_STACK_FILE names a running stack and TEST_STACK_LOG its output. */
export default async function globalSetup(): Promise<void> {
  if (process.env.TEST_STACK_FILE) return;
  process.env.NODE_COMPILE_CACHE ??= COMPILE_CACHE;
  const folder = await mkdtemp(join(tmpdir(), 'rms-mcp-'));
  const logTo = join(folder, 'log');
  // Installs at Shopify can begin, and end at no store.
  const shopifyApp = { SHOPIFY_CLIENT_ID: 'test-app', SHOPIFY_CLIENT_SECRET: 'test-secret' };
  const env = { LOG_LEVEL: 'debug', ...shopifyApp };
  const stack = await startTestStack([], { env, logTo });
  process.env.TEST_STACK_FILE = stack.path;
  process.env.TEST_STACK_LOG = logTo;
  Object.assign(globalThis, {
    stopTestStack: async () => {
      await stack.stop();
      await rm(folder, { recursive: true, force: true });
    },
  });
}
