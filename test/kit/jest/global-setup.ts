import { serveTemplate } from '../postgres/server.ts';
import { COMPILE_CACHE } from './compile-cache.ts';

/** Test files get their databases from this process. */
export default async function globalSetup(): Promise<void> {
  process.env.NODE_COMPILE_CACHE ??= COMPILE_CACHE;
  const { url, stop } = await serveTemplate();
  process.env.TEST_DATABASE_SERVER = url;
  Object.assign(globalThis, { stopTestDatabase: stop });
}
