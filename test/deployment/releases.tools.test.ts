import { readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { renderWith } from './components.ts';

const read = (file: string) => readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8');
const { version } = JSON.parse(read('package.json'));

const renamed = (name: string) => `patches:
  - target: { kind: Job }
    options: { allowNameChange: true }
    patch: '[{ "op": "replace", "path": "/metadata/name", "value": "${name}" }]'`;
const jobs = (extra: string) => renderWith([], extra).filter(({ kind }) => kind === 'Job');

describe('the migration Job', () => {
  test('has the version of package.json in its name, as the labels have', () => {
    const [job, ...others] = jobs('');
    expect(others).toEqual([]);
    expect(job?.metadata.name).toBe(`migrate-${String(version).replaceAll('.', '-')}`);
    expect(job?.metadata.labels['app.kubernetes.io/version']).toBe(version);
  });

  test('of two releases stands side by side: nothing that names the one names the other', () => {
    const [first] = jobs('');
    const [second] = jobs(renamed('migrate-9-9-9'));
    expect(first?.metadata.name).not.toBe(second?.metadata.name);
    // Kubernetes selects its pods by a label of its own; a selector would be shared.
    expect(first?.spec).not.toHaveProperty('selector');
    expect(second?.spec).not.toHaveProperty('selector');
  });

  test('is not removed by itself, because what keeps the manifests would make it again', () => {
    expect(jobs('')[0]?.spec).not.toHaveProperty('ttlSecondsAfterFinished');
  });

  test('runs before the Deployments of its release in Argo CD, and may be replaced by Flux', () => {
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
    expect(waves).toEqual(Array(7).fill('1'));
  });
});

test('selectors are those of the first release: a Deployment cannot change them', () => {
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
    expect(paths.length).toBeGreaterThan(1);
    for (const [, path = ''] of paths) expect(read(`${path}/kustomization.yaml`)).toContain('base');
  });
});

describe('the Dockerfile', () => {
  const dockerfile = read('deploy/Dockerfile');

  test('names its bases as build arguments, by tags that every builder has', () => {
    const bases = [...dockerfile.matchAll(/^FROM \W*(\w+)/gm)].map(([, base]) => base);
    const stages = [...dockerfile.matchAll(/ AS (\S+)$/gm)].map(([, stage]) => stage);
    expect(bases.filter((base) => !stages.includes(base ?? ''))).toEqual([
      'NODE_IMAGE',
      'BASE_IMAGE',
    ]);
    expect(dockerfile).not.toMatch(/<<|--link|latest|^# *syntax/m);
  });

  test('takes Node alone into the last stage, without npm', () => {
    const last = dockerfile.slice(dockerfile.search(/^FROM .*BASE_IMAGE/m));
    expect(last).toContain('COPY --from=packages /usr/local/bin/node /usr/local/bin/node');
    expect(last).not.toMatch(/\bnpm\b|COPY --from=packages \/usr\/local\/lib/);
  });

  test('says its version and revision, and carries its bill of materials', () => {
    expect(dockerfile).toMatch(/org\.opencontainers\.image\.version=\$\{VERSION\}/);
    expect(dockerfile).toMatch(/org\.opencontainers\.image\.revision=\$\{REVISION\}/);
    expect(dockerfile).toMatch(/npm sbom .*> sbom\.cdx\.json/);
  });
});
