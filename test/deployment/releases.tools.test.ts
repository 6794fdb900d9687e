import { readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { PROCESS_NAMES } from '../../services/platform/services.ts';
import { renderWith } from './components.ts';

const read = (file: string) => readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8');
const { version } = JSON.parse(read('package.json'));

const renamed = (name: string) => `patches:
  - target: { kind: Job }
    options: { allowNameChange: true }
    patch: '[{ "op": "replace", "path": "/metadata/name", "value": "${name}" }]'`;
const jobs = (extra: string) => renderWith([], extra).filter(({ kind }) => kind === 'Job');

describe('the migration Job', () => {
  test('has the version of package.json in its name, like the labels', () => {
    const [job, ...others] = jobs('');
    expect(others).toEqual([]);
    expect(job?.metadata.name).toBe(`migrate-${String(version).replaceAll('.', '-')}`);
    expect(job?.metadata.labels['app.kubernetes.io/version']).toBe(version);
  });

  test('the Job of the topics has the version in its name, too', () => {
    const all = renderWith(['kafka-topics']).filter(({ kind }) => kind === 'Job');
    expect(all).toHaveLength(2);
    for (const { metadata } of all) {
      expect(metadata.name.endsWith(`-${String(version).replaceAll('.', '-')}`)).toBe(true);
    }
  });

  test('Jobs of two releases can exist together, because their names and labels differ', () => {
    const [first] = jobs('');
    const [second] = jobs(renamed('migrate-9-9-9'));
    expect(first?.metadata.name).not.toBe(second?.metadata.name);
    // Kubernetes adds a unique label for the Job's pods. A selector of our own would match both Jobs.
    expect(first?.spec).not.toHaveProperty('selector');
    expect(second?.spec).not.toHaveProperty('selector');
  });

  test('is not deleted automatically, because GitOps tools would create it again', () => {
    expect(jobs('')[0]?.spec).not.toHaveProperty('ttlSecondsAfterFinished');
  });

  test('runs before the Deployments of its release in Argo CD, and Flux may replace it', () => {
    const objects = renderWith([]);
    const [job] = objects.filter(({ kind }) => kind === 'Job');
    expect(job?.metadata.annotations).toMatchObject({
      'argocd.argoproj.io/hook': 'Sync',
      'argocd.argoproj.io/hook-delete-policy': 'BeforeHookCreation',
      'kustomize.toolkit.fluxcd.io/force': 'enabled',
    });
    const waves = objects
      .filter(({ kind }) => kind === 'Deployment')
      .map(({ metadata }) => metadata.annotations['argocd.argoproj.io/sync-wave']);
    expect(waves).toEqual(PROCESS_NAMES.map(() => '1'));
  });
});

test('selectors stay those of the first release, because Kubernetes does not allow changes', () => {
  for (const { metadata, spec } of renderWith([])) {
    if (spec && typeof spec === 'object' && 'selector' in spec && 'template' in spec) {
      expect(spec.selector).toEqual({ matchLabels: { app: metadata.name } });
    }
  }
});

describe('skaffold.yaml', () => {
  const skaffold = read('skaffold.yaml');

  test('has no hooks', () => {
    expect(skaffold).not.toMatch(/^\s*(hooks|before|after|host):/m);
  });

  test('renders overlays that exist', () => {
    const paths = [...skaffold.matchAll(/kustomize: \{ paths: \[([^\]]+)\] \}/g)];
    expect(paths.map(([, path]) => path)).toEqual([
      'deploy/overlays/dev',
      'deploy/overlays/dev-sync',
      'deploy/overlays/production',
    ]);
    for (const [, path = ''] of paths) expect(read(`${path}/kustomization.yaml`)).not.toBe('');
  });

  test('builds the images of the overlays from stages of the Dockerfile', () => {
    const images = new Set([...skaffold.matchAll(/- image: (\S+)/g)].map(([, image]) => image));
    expect([...images].toSorted()).toEqual(['rms', 'rms-dev', 'rms-edge']);
    const targets = [...skaffold.matchAll(/target: (\w+)/g)].map(([, target]) => target);
    expect(STAGES.map(({ name }) => name)).toEqual(expect.arrayContaining(targets));
  });
});

const DOCKERFILE = read('deploy/Dockerfile');
const STAGES = [
  ...DOCKERFILE.matchAll(/^FROM (\S+) AS (\S+)\n([\s\S]*?)(?=^FROM |$(?![\s\S]))/gm),
].map(([, base = '', name = '', lines = '']) => ({
  base,
  name,
  lines,
}));
const stage = (name: string) => STAGES.find((one) => one.name === name);

describe('the Dockerfile', () => {
  test('names its base images as build arguments, and deploy/bases those of a release by digest', () => {
    const stages = STAGES.map(({ name }) => name);
    const bases = STAGES.filter(({ base }) => !stages.includes(base));
    expect(bases.map(({ base, name }) => `${base} ${name}`)).toEqual([
      expect.stringMatching(/^\$\{NODE_IMAGE\} node$/),
      expect.stringMatching(/^\$\{BASE_IMAGE\} debian$/),
    ]);
    expect(read('deploy/bases/Dockerfile').split('\n').slice(1, -1)).toEqual([
      expect.stringMatching(/^FROM node:[\w.-]+@sha256:[0-9a-f]{64} AS node$/),
      expect.stringMatching(/^FROM debian:[\w.-]+@sha256:[0-9a-f]{64} AS debian$/),
    ]);
    expect(DOCKERFILE).not.toMatch(/<<|--link|latest|^# *syntax/m);
  });

  test('ends with the stage for production, with Node but without npm and the demo', () => {
    expect(STAGES.at(-1)).toMatchObject({ name: 'release', base: 'service' });
    expect(stage('service')?.base).toBe('debian');
    const lines = `${stage('service')?.lines}${stage('release')?.lines}`;
    expect(lines).toContain('COPY --from=packages /usr/local/bin/node /usr/local/bin/node');
    expect(lines).not.toMatch(/\bnpm\b|COPY deploy|COPY --from=packages \/usr\/local\/lib/);
  });

  test('contains its version, its revision and its bill of materials', () => {
    expect(stage('release')?.lines).toMatch(/org\.opencontainers\.image\.version=\$\{VERSION\}/);
    expect(stage('release')?.lines).toMatch(/org\.opencontainers\.image\.revision=\$\{REVISION\}/);
    expect(stage('portal')?.lines).toMatch(/node deploy\/sbom\.ts .*> sbom\.cdx\.json/);
    expect(stage('portal')?.lines).toContain(
      'COPY --from=debian /usr/lib/os-release /var/lib/dpkg/status',
    );
    expect(stage('service')?.lines).toContain('sbom.cdx.json');
  });
});
