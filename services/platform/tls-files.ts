import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createSecureContext } from 'node:tls';

/** Certificates in PEM, as `node:tls` takes them. */
export interface TlsMaterial {
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: string;
}

/** Files with certificates that change while the process runs. */
export interface TlsFiles {
  /** The content of the files when they were last valid. */
  current(): TlsMaterial;
  /** Calls the listener when they hold something else, until the returned function is called. */
  onChange(listener: () => void): () => void;
}

export interface TlsFilesOptions {
  /** Authorities that the other side's certificate may come from. */
  readonly caFile?: string | undefined;
  /** The own certificate with its chain, and its key. */
  readonly certFile?: string | undefined;
  readonly keyFile?: string | undefined;
  /** How often the files are read. Milliseconds. */
  readonly pollMs?: number;
}

/** Kubernetes renews mounted secrets in place, and tells nobody. Milliseconds. */
const POLL_MS = 10_000;

/**
 * Reads the files now, and again every ten seconds for as long as somebody listens. What does not fit
 * together, such as a certificate whose key is not written yet, is read again later; the former stays.
 *
 * @throws when a file cannot be read at first, or the files do not fit together.
 */
export function openTlsFiles(o: TlsFilesOptions): TlsFiles {
  const listeners = new Set<() => void>();
  let material = read(o);
  let timer: NodeJS.Timeout | undefined;

  function look(): void {
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
      timer ??= setInterval(look, o.pollMs ?? POLL_MS).unref();
      return () => {
        listeners.delete(listener);
        if (listeners.size > 0) return;
        clearInterval(timer);
        timer = undefined;
      };
    },
  };
}

/** @throws when a file cannot be read, or the key is not that of the certificate. */
function read({ caFile, certFile, keyFile }: TlsFilesOptions): TlsMaterial {
  const material: TlsMaterial = {
    ...(caFile !== undefined && { ca: readFileSync(caFile, 'utf8') }),
    ...(certFile !== undefined && { cert: readFileSync(certFile, 'utf8') }),
    ...(keyFile !== undefined && { key: readFileSync(keyFile, 'utf8') }),
  };
  createSecureContext(material);
  // OpenSSL would drop a key that is not the certificate's, and fail each handshake instead.
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
