import { execFileSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { ROOT } from '../kit/process.ts';

// A package with code that runs at its install, as attackers publish them.

const folder = mkdtempSync(join(tmpdir(), 'rms-install-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** `npm run` hands its own settings down in variables, `.npmrc` among them. */
const ENV = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => !/^npm_/i.test(name)),
);

/** Installs the planted package in a new project. Returns whether its code has run. */
function install(npm: readonly string[], o: { readonly hasOurSettings: boolean }): boolean {
  const project = mkdtempSync(join(folder, 'project-'));
  const planted = join(project, 'planted');
  mkdirSync(planted);
  const marker = join(project, 'ran');
  writePackage(planted, { scripts: { postinstall: `touch ${marker}` } });
  writePackage(project, { dependencies: { planted: 'file:planted-1.0.0.tgz' } });
  const run = (...args: string[]) =>
    execFileSync('npx', ['-y', ...npm, ...args], { cwd: project, env: ENV, stdio: 'pipe' });
  run('pack', './planted', '--ignore-scripts');
  if (o.hasOurSettings) copyFileSync(join(ROOT, '.npmrc'), join(project, '.npmrc'));
  run('install', '--no-audit', '--no-fund');
  run('ci', '--no-audit', '--no-fund');
  return existsSync(marker);
}

function writePackage(at: string, more: object): void {
  writeFileSync(
    join(at, 'package.json'),
    JSON.stringify({ name: 'planted', version: '1.0.0', ...more }),
  );
}

test.each([[['npm@10.9.4']], [['npm@11.6.2']]])('with %s no code of a package runs', (npm) => {
  expect(install(npm, { hasOurSettings: true })).toBe(false);
});

test('the planted package would run otherwise', () => {
  expect(install(['npm@10.9.4'], { hasOurSettings: false })).toBe(true);
});
