import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { ROOT } from '../process.ts';

/** A receiver of `docs/receivers`, and how it is started. */
export interface Language {
  readonly name: string;
  /** Relative to `docs/receivers`. */
  readonly file: string;
  readonly command: string;
  /** @param port where the receiver listens. It is also in the environment, as PORT. */
  readonly args: (path: string, port: number) => readonly string[];
  /** Arguments with which the command succeeds if everything is installed. */
  readonly probe: readonly string[];
  /** What to install on Debian. */
  readonly packages: string;
  /** Every machine that can run the tests has it. */
  readonly isRequired?: true;
}

export const LANGUAGES: readonly Language[] = [
  {
    name: 'Node',
    file: 'node/receiver.mjs',
    command: process.execPath,
    args: (path) => [path],
    probe: ['--version'],
    packages: 'nodejs',
    isRequired: true,
  },
  {
    name: 'Python',
    file: 'python/receiver.py',
    command: 'python3',
    args: (path) => [path],
    probe: ['-c', 'import sys; assert sys.version_info >= (3, 9)'],
    packages: 'python3',
    isRequired: true,
  },
  {
    name: 'Go',
    file: 'go/receiver.go',
    command: 'go',
    args: (path) => ['run', path],
    probe: ['version'],
    packages: 'golang-go',
  },
  {
    name: 'Ruby',
    file: 'ruby/receiver.rb',
    command: 'ruby',
    args: (path) => [path],
    probe: ['-rwebrick', '-e', ''],
    packages: 'ruby ruby-webrick',
  },
  {
    name: 'PHP',
    file: 'php/receiver.php',
    command: 'php',
    args: (path, port) => ['-d', 'post_max_size=32M', '-S', `127.0.0.1:${port}`, path],
    probe: ['--version'],
    packages: 'php-cli',
  },
];

export function isInstalled({ command, probe }: Language): boolean {
  return spawnSync(command, probe, { stdio: 'ignore' }).status === 0;
}

export function pathOf({ file }: Language): string {
  return join(ROOT, 'docs/receivers', file);
}
