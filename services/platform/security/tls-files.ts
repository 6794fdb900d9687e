import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createSecureContext } from 'node:tls';

/** Certificates in PEM, for `node:tls`. */
export interface TlsMaterial {
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: string;
}

/** Files with certificates. Their content may change while the process runs. */
export interface TlsFiles {
  /** The last valid content of the files. */
  current(): TlsMaterial;
  /** Calls the listener after a change of the files, until the returned function is called. */
  onChange(listener: () => void): () => void;
}

export interface TlsFilesOptions {
  /** The authorities that this process trusts when it verifies the certificates of other processes. */
  readonly caFile?: string | undefined;
  /** The certificate of this process with its chain, and its key. */
  readonly certFile?: string | undefined;
  readonly keyFile?: string | undefined;
  /** Interval at which the files are read. Milliseconds. */
  readonly pollMs?: number;
}

/** Kubernetes renews mounted secrets in place, and sends no notification. So the files are polled. Milliseconds. */
const POLL_MS = 10_000;

/**
 * Reads the files now, and every ten seconds while there is a listener. While the files do not fit together, the
 * previous content stays in use. An example: only the certificate has been renewed so far.
 *
 * @throws when the first read fails, or the files do not fit together.
 */
export function openTlsFiles(o: TlsFilesOptions): TlsFiles {
  const listeners = new Set<() => void>();
  let material = read(o);
  let timer: NodeJS.Timeout | undefined;

  function reread(): void {
    let found: TlsMaterial;
    try {
      found = read(o);
    } catch {
      return;
    }
    if (isSame(found, material)) return;
    material = found;
    for (const listener of listeners) listener();
  }

  return {
    current: () => material,
    onChange(listener) {
      listeners.add(listener);
      timer ??= setInterval(reread, o.pollMs ?? POLL_MS).unref();
      return () => {
        listeners.delete(listener);
        if (listeners.size > 0) return;
        clearInterval(timer);
        timer = undefined;
      };
    },
  };
}

/** Reads the files. @throws when a file cannot be read, or the key does not belong to the certificate. */
function read({ caFile, certFile, keyFile }: TlsFilesOptions): TlsMaterial {
  const material: TlsMaterial = {
    ...(caFile !== undefined && { ca: readFileSync(caFile, 'utf8') }),
    ...(certFile !== undefined && { cert: readFileSync(certFile, 'utf8') }),
    ...(keyFile !== undefined && { key: readFileSync(keyFile, 'utf8') }),
  };
  createSecureContext(material);
  // OpenSSL would ignore the key of another certificate, and then fail each handshake.
  const { cert, key } = material;
  if (cert !== undefined && key !== undefined) {
    const isOwn = new X509Certificate(cert).checkPrivateKey(createPrivateKey(key));
    if (!isOwn) throw new Error(`${keyFile} is not the key of ${certFile}`);
  }
  return material;
}

function isSame(a: TlsMaterial, b: TlsMaterial): boolean {
  return a.ca === b.ca && a.cert === b.cert && a.key === b.key;
}
