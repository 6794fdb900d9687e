import { execFileSync } from 'node:child_process';
import { z } from 'zod';

const INSTALL = 'rendering overlays needs kubectl: https://kubernetes.io/docs/tasks/tools/';

/** Larger than the output of any overlay. */
const MAX_BYTES = 16 * 1024 * 1024;

const objectShape = z.looseObject({
  kind: z.string(),
  metadata: z.looseObject({
    name: z.string(),
    labels: z.record(z.string(), z.string()).default({}),
    annotations: z.record(z.string(), z.string()).default({}),
  }),
});

/** A Kubernetes object. */
export type Manifest = z.infer<typeof objectShape>;

/**
 * Renders an overlay to Kubernetes objects, in no particular order. Needs no cluster.
 *
 * @throws Error that says what to install, or why kustomize rejects the overlay.
 */
export function renderOverlay(folder: string): Manifest[] {
  const yaml = kubectl(['kustomize', folder]);
  // Converts YAML to JSON without a cluster and without a YAML parser.
  const local = ['annotate', '--local', '-o', 'json', '-f', '-', 'rendered=true'];
  const documents = kubectl(local, yaml).replaceAll(/^\}\n(?=\{)/gm, '},\n');
  return z.array(objectShape).parse(JSON.parse(`[${documents}]`));
}

function kubectl(args: readonly string[], input = ''): string {
  try {
    return execFileSync('kubectl', args, {
      input,
      encoding: 'utf8',
      maxBuffer: MAX_BYTES,
      stdio: 'pipe',
    });
  } catch (cause) {
    if (cause instanceof Error && 'code' in cause && cause.code === 'ENOENT') {
      throw new Error(INSTALL, { cause });
    }
    throw cause;
  }
}
