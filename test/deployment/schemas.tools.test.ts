import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { type Manifest, renderOverlay } from '../../deploy/check/render.ts';
import { renderWith } from './components.ts';

const INSTALL = 'this test needs kubernetes-validate: pip install kubernetes-validate';
/** Minor versions of Kubernetes: the oldest supported one, and later ones. */
const VERSIONS = ['1.31', '1.33', '1.35'];

const folder = mkdtempSync(join(tmpdir(), 'rms-schemas-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const COMPONENTS = [
  'autoscaling',
  'disruption',
  'edge',
  'identity',
  'in-cluster-stores',
  'kafka-topics',
  'mail',
  'network-policies',
  'network-policies/ipv6',
  'network-policies/mail',
  'observability',
  'tls',
];
const manifests: readonly (readonly [string, () => Manifest[]])[] = [
  ['the dev overlay', () => renderOverlay('deploy/overlays/dev')],
  ['the production overlay', () => renderOverlay('deploy/overlays/production')],
  ['all components with kinds of Kubernetes', () => renderWith(COMPONENTS)],
];

describe.each(VERSIONS)('the schemas of Kubernetes %s', (version) => {
  test.each(manifests)('accept %s, and find no unknown field', (name, render) => {
    const file = join(folder, `${name.replaceAll(' ', '-')}.yaml`);
    // JSON is valid YAML.
    writeFileSync(
      file,
      render()
        .map((one) => JSON.stringify(one))
        .join('\n---\n'),
    );
    expect(validate(['--strict', '--quiet', '--no-warn', '-k', version, file])).toBe('');
  });
});

test('kubernetes-validate rejects a misspelt field name', () => {
  const file = join(folder, 'mistyped.yaml');
  writeFileSync(
    file,
    JSON.stringify({
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name: 'a' },
      spec: { port: [] },
    }),
  );
  expect(() => validate(['--strict', '-k', '1.35', file])).toThrow(/port/);
});

function validate(args: readonly string[]): string {
  try {
    return execFileSync('kubernetes-validate', args, { encoding: 'utf8', stdio: 'pipe' });
  } catch (cause) {
    if (cause instanceof Error && 'code' in cause && cause.code === 'ENOENT') {
      throw new Error(INSTALL, { cause });
    }
    const { stdout, stderr } = Object(cause);
    throw new Error(`kubernetes-validate: ${stdout}${stderr}`, { cause });
  }
}
