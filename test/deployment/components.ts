import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative, resolve } from 'node:path';
import { type Manifest, renderOverlay } from '../../deploy/check/render.ts';

/**
 * The objects of the base with these components, in an overlay for the namespace `elsewhere`.
 *
 * @param extra additional lines of the kustomization.
 */
export function renderWith(components: readonly string[], extra = ''): Manifest[] {
  // The real path, because kustomize resolves links before it reads relative paths.
  const folder = mkdtempSync(join(resolve(tmpdir()), 'rms-overlay-'));
  const path = (name: string) => relative(folder, resolve('deploy', name));
  const lines = [
    'namespace: elsewhere',
    `resources: [${path('base')}]`,
    `components: [${components.map((name) => path(`components/${name}`)).join(', ')}]`,
    'images: [{ name: rms, newTag: a-tag }]',
    extra,
  ];
  try {
    writeFileSync(join(folder, 'kustomization.yaml'), lines.join('\n'));
    return renderOverlay(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

export function ofKind(objects: readonly Manifest[], kind: string): Manifest[] {
  return objects.filter((one) => one.kind === kind);
}

export function namesOf(objects: readonly Manifest[], kind: string): string[] {
  return ofKind(objects, kind)
    .map(({ metadata }) => metadata.name)
    .toSorted();
}
