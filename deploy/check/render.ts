import { execFileSync } from 'node:child_process';
import { z } from 'zod';

const INSTALL = 'rendering overlays needs kubectl: https://kubernetes.io/docs/tasks/tools/';

/** Enough for every object of an overlay. */
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
 * The Kubernetes objects that an overlay renders to, in no particular order. No cluster is asked.
 *
 * @throws Error that says what to install, or what kustomize refuses.
 */
export function renderOverlay(folder: string): Manifest[] {
  const yaml = kubectl(['kustomize', folder]);
  // The way from YAML to JSON that needs neither a cluster nor a parser of our own.
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
