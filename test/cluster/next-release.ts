import { execFileSync } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { RELEASE } from '../../services/platform/postgres/release.ts';
import { ROOT } from '../kit/process.ts';

/** The release that the run rolls out: this code, one more migration, and the next minor version. */
export const NEXT = RELEASE.replace(/\.(\d+)\.\d+$/, (_, minor) => `.${Number(minor) + 1}.0`);

const MIGRATIONS = 'services/returns/migrations';

/** Writes the next release to a folder. `deploy/build-image.sh` there builds its images. */
export function writeNextRelease(folder: string): void {
  const files = execFileSync(
    'git',
    ['ls-files', '-z', '--cached', '--others', '--exclude-standard'],
    {
      cwd: ROOT,
      encoding: 'utf8',
    },
  );
  for (const file of files.split('\0')) {
    if (file === '' || !existsSync(join(ROOT, file))) continue;
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    copyFileSync(join(ROOT, file), join(folder, file));
  }
  for (const file of ['package.json', 'package-lock.json']) {
    const text = readFileSync(join(folder, file), 'utf8');
    const version = `"version": "${RELEASE}"`;
    writeFileSync(join(folder, file), text.replace(version, `"version": "${NEXT}"`));
  }
  const last = readdirSync(join(ROOT, MIGRATIONS)).sort().at(-1) ?? '';
  const number = String(Number.parseInt(last, 10) + 1).padStart(4, '0');
  writeFileSync(join(folder, MIGRATIONS, `${number}_next_release.sql`), MIGRATION);
}

/** Processes of both releases work with a column that none of them reads. */
const MIGRATION = `-- fits: ${RELEASE}
alter table returns add column next_release text not null default '' check (char_length(next_release) <= 20);
`;

const [, main, folder] = process.argv;
if (folder !== undefined && import.meta.url === pathToFileURL(main ?? '').href) {
  writeNextRelease(folder);
}
