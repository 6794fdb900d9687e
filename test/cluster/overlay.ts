import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join, relative, resolve } from 'node:path';
import type { Namespace } from './kubectl.ts';

export interface Overlay {
  /** Folder of the overlay. */
  readonly path: string;
  /** Names in the manifests, and the images that take their place. */
  readonly images: Readonly<Record<string, string>>;
  /** Folders of components. */
  readonly components?: readonly string[];
  readonly patches?: readonly object[];
}

/** Applies an overlay with these images, as somebody does who refers to it. */
export async function applyOverlay(space: Namespace, overlay: Overlay): Promise<void> {
  await withOverlay(overlay, (folder) => space.kubectl('apply', '-k', folder));
}

/** Writes a folder that refers to an overlay, and removes it after the work. */
export async function withOverlay<T>(o: Overlay, work: (folder: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(resolve('deploy/overlays'), '.cluster-'));
  const kustomization = {
    resources: [relative(folder, resolve(o.path))],
    components: (o.components ?? []).map((path) => relative(folder, resolve(path))),
    images: Object.entries(o.images).map(([name, image]) => imageOf(name, image)),
    patches: o.patches ?? [],
  };
  try {
    await writeFile(join(folder, 'kustomization.yaml'), JSON.stringify(kustomization));
    return await work(folder);
  } finally {
    await rm(folder, { recursive: true });
  }
}

function imageOf(name: string, image: string) {
  const [newName, newTag] = image.split(/:(?=[^:/]+$)/);
  return { name, newName, newTag };
}
