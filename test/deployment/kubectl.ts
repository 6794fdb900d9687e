import { execFileSync } from 'node:child_process';

const INSTALL = 'the deployment tests need kubectl: https://kubernetes.io/docs/tasks/tools/';

/** Enough for every object of an overlay. */
const MAX_BYTES = 16 * 1024 * 1024;

/**
 * The Kubernetes objects that an overlay renders to, in no particular order. No cluster is asked.
 *
 * @throws Error that says what to install, or what kustomize refuses.
 */
export function renderOverlay(folder: string): unknown[] {
  const yaml = kubectl(['kustomize', folder]);
  // The way from YAML to JSON that needs neither a cluster nor a parser of our own.
  const local = ['annotate', '--local', '-o', 'json', '-f', '-', 'rendered=true'];
  const documents = kubectl(local, yaml).replaceAll(/^\}\n(?=\{)/gm, '},\n');
  return JSON.parse(`[${documents}]`);
}

function kubectl(args: readonly string[], input = ''): string {
  try {
    return execFileSync('kubectl', args, { input, encoding: 'utf8', maxBuffer: MAX_BYTES });
  } catch (cause) {
    if (cause instanceof Error && 'code' in cause && cause.code === 'ENOENT') {
      throw new Error(INSTALL, { cause });
    }
    throw cause;
  }
}
