import { readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { wholeImage } from '../../deploy/sbom.ts';
import { CHANGELOG, GUIDES } from '../../gateway/docs/paths.ts';
import { SERVICE_NAMES, SERVICES } from '../../services/platform/services.ts';
import {
  docsReadBy,
  filesImportedBy,
  importsOf,
  isShipped,
  packages,
  servicesCalledBy,
  sourcesIn,
} from './sources.ts';

/** Loaded only when they are needed. A missing one causes a clear message. */
const OPTIONAL = [{ file: 'services/platform/telemetry/log.ts', target: 'pino-pretty' }];

describe('the image', () => {
  const shipped = sourcesIn(['gateway', 'services', 'proto/gen'], { inImage: true });
  const imports = shipped.flatMap(importsOf);

  test('contains the main file of every process and no test', () => {
    expect(shipped.filter((file) => file.endsWith('/main.ts'))).toEqual(
      expect.arrayContaining(['gateway/main.ts', 'services/returns/main.ts']),
    );
    expect(shipped.filter((file) => /\.test\.ts$|\/testing\//.test(file))).toEqual([]);
  });

  test('imports no package that npm ci --omit=dev leaves out', () => {
    const { image } = packages();
    const missing = imports
      .filter(({ isFile, target }) => !isFile && !image.has(target))
      .map(({ file, target }) => ({ file, target }));
    expect(missing).toEqual(OPTIONAL);
  });

  test('has at most 32 direct dependencies, so that each can be watched', () => {
    expect(packages().image.size).toBeLessThanOrEqual(32);
  });

  test('starts no child process and evaluates no text as code', () => {
    const dangerous = /node:(child_process|cluster|vm)\b|\beval\(|\bnew Function\(/;
    expect(shipped.filter((file) => dangerous.test(readFileSync(file, 'utf8')))).toEqual([]);
  });

  test('imports no file that .dockerignore leaves out', () => {
    const present = new Set(shipped);
    const missing = imports.filter(({ isFile, target }) => isFile && !present.has(target));
    expect(missing).toEqual([]);
  });
});

test('the bill of materials has what the image has besides packages of npm: those in the page, Node, and Debian', () => {
  const express = { purl: 'pkg:npm/express@5.3.0' };
  const lock = readFileSync('package-lock.json', 'utf8');
  const locked = (name: string): string =>
    JSON.parse(lock).packages[`node_modules/${name}`].version;
  const parts = {
    lock,
    bundled: ['node_modules/express', 'node_modules/@mantine/core'],
    node: '24.1.0',
    osRelease: 'NAME="Debian GNU/Linux"\nVERSION_ID="12"\n',
    status: [
      'Package: libc6\nStatus: install ok installed\nArchitecture: amd64\nSource: glibc\nVersion: 2.36-9+deb12u10',
      'Package: gone\nStatus: deinstall ok config-files\nArchitecture: amd64\nVersion: 1\n',
    ].join('\n\n'),
  };
  const { components } = wholeImage({ components: [express] }, parts);
  expect(components.map((one) => Reflect.get(one, 'purl'))).toEqual([
    express.purl,
    `pkg:npm/swagger-ui-dist@${locked('swagger-ui-dist')}`,
    `pkg:npm/%40mantine/core@${locked('@mantine/core')}`,
    'pkg:generic/node@24.1.0',
    'pkg:deb/debian/libc6@2.36-9%2Bdeb12u10?arch=amd64&distro=debian-12&upstream=glibc',
    undefined,
  ]);
  expect(components.at(-1)).toEqual({ type: 'operating-system', name: 'debian', version: '12' });
  expect(() => wholeImage({ components: [] }, { ...parts, bundled: ['node_modules/x'] })).toThrow(
    'the lock has no node_modules/x',
  );
  // Each file of a package that the Dockerfile copies belongs to one that the bill knows.
  const dockerfile = readFileSync('deploy/Dockerfile', 'utf8');
  const copied = [...dockerfile.matchAll(/\/app\/node_modules\/((?:@[^/]+\/)?[^/\s]+)\//g)];
  expect(new Set(copied.map(([, name]) => name))).toEqual(new Set(['swagger-ui-dist']));
});

test('the stage of the page has every file that its build imports', () => {
  const dockerfile = readFileSync('deploy/Dockerfile', 'utf8');
  const [, stage = ''] = /^FROM node AS portal$([\s\S]*?)^RUN node portal/m.exec(dockerfile) ?? [];
  const copied = [...stage.matchAll(/^COPY (?:\S+ )*(\S+)$/gm)].map(([, path = '']) => path);
  const files = importedFrom('portal/build.ts', 'portal/vite.config.ts');
  expect(files).toContain('gateway/portal/methods.ts');
  expect(files.filter((file) => !copied.some((path) => file.startsWith(`${path}/`)))).toEqual([]);
});

describe('the image for development', () => {
  const files = importedFrom('deploy/demo/main.ts', 'deploy/demo/forward.ts');

  test('contains every file that the demo imports', () => {
    const taken = /^(deploy\/(demo|local)|gateway|services|proto\/gen)\//;
    expect(files.filter((file) => !taken.test(file))).toEqual([]);
    expect(files).toContain('deploy/local/identity/provider.ts');
  });

  test('contains every package that these files import: three more than the release image', () => {
    const { image } = packages();
    const more = files
      .flatMap(importsOf)
      .filter(({ isFile, target }) => !isFile && !image.has(target));
    const names = [...new Set(more.map(({ target }) => target))].toSorted();
    expect(names).toEqual(['helmet', 'postal-mime', 'smtp-server']);
    const dockerfile = readFileSync('deploy/Dockerfile', 'utf8');
    expect(dockerfile).toContain(`[${names.map((name) => `"${name}"`).join(', ')}].map(`);
  });
});

/** These files, and all files that they import directly or indirectly. */
function importedFrom(...mains: string[]): string[] {
  const found = new Set(mains);
  for (const file of found) {
    if (!file.endsWith('.ts')) continue;
    for (const { isFile, target } of importsOf(file)) if (isFile) found.add(target);
  }
  return [...found].filter((file) => file.endsWith('.ts'));
}

test('no service imports another one, only returns imports commerce, and neither platform nor contract imports a service', () => {
  const folderOf = (file: string) => /^services\/(\w+)\//.exec(file)?.[1];
  const closed: readonly string[] = [...SERVICE_NAMES, 'commerce'];
  const found = sourcesIn(['services'], { inImage: false })
    .filter((file) => file.endsWith('.ts') && !file.endsWith('.test.ts'))
    .flatMap((file) =>
      filesImportedBy(file)
        .filter((target) => closed.includes(folderOf(target) ?? ''))
        .filter((target) => folderOf(target) !== folderOf(file))
        .filter((target) => folderOf(file) !== 'returns' || folderOf(target) !== 'commerce')
        .map((target) => `${file} -> ${target}`),
    );
  expect(found).toEqual([]);
});

test('a service has clients of the services that it calls by services/platform/services.ts', () => {
  const edges = sourcesIn(['services'], { inImage: true })
    .filter((file) => !file.startsWith('services/platform/'))
    .flatMap((file) => {
      const caller = file.replace(/^services\//, '').split('/')[0];
      return servicesCalledBy(file).map(
        (name) => `${caller} -> ${name.replace('Service', '').toLowerCase()}`,
      );
    });
  expect([...new Set(edges)].toSorted()).toEqual(
    SERVICE_NAMES.flatMap((from) =>
      SERVICES[from].calls.map((to) => `${from} -> ${to}`),
    ).toSorted(),
  );
});

test('contains the files of docs that a shipped file reads', () => {
  const read = [
    ...sourcesIn(['gateway', 'services'], { inImage: true }).flatMap(docsReadBy),
    ...[CHANGELOG, ...GUIDES].map(({ source }) => `docs/${source}`),
  ];
  expect(read).toContain('docs/openapi/');
  expect(read.filter((path) => !isShipped(path))).toEqual([]);
});

describe('a checkout', () => {
  test('declares every package that it imports', () => {
    const { checkout } = packages();
    const all = sourcesIn(['gateway', 'services', 'deploy', 'test'], { inImage: false });
    const missing = all
      // The journey of the generated client runs with the packages beside it.
      .filter((file) => !file.startsWith('test/openapi-clients/client/'))
      .flatMap(importsOf)
      .filter(({ isFile, target }) => !isFile && !checkout.has(target));
    expect(missing).toEqual([]);
  });
});
