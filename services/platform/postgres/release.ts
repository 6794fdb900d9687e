import { readFileSync } from 'node:fs';
import { z } from 'zod';

const packageJson = z.object({ version: z.string().regex(/^\d+\.\d+\.\d+$/) });

/** The release of this code: the version in `package.json`, such as `1.0.0`. */
export const RELEASE: string = packageJson.parse(
  JSON.parse(readFileSync(new URL('../../../package.json', import.meta.url), 'utf8')),
).version;

/** Whether release `a` is older than release `b`. Both are three numbers with dots between them. */
export function isOlder(a: string, b: string): boolean {
  return a.localeCompare(b, 'en', { numeric: true }) < 0;
}

/** Returns the newest of the releases, at least one. */
export function newestOf(releases: readonly string[]): string {
  return releases.reduce((newest, one) => (isOlder(newest, one) ? one : newest));
}
