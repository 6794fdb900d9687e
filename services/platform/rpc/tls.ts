import http2 from 'node:http2';
import { createSecureContext, type TLSSocket } from 'node:tls';
import { type ChannelCredentials, credentials } from '@grpc/grpc-js';
import type { TlsFiles } from '../security/tls-files.ts';

/** TLS between services. It is absent in development, or when a service mesh encrypts. */
export interface GrpcTls {
  readonly files: TlsFiles;
  /** Whether servers reject clients without a certificate from the same authorities. */
  readonly requiresClientCertificate: boolean;
}

const MIN_VERSION = 'TLSv1.2';

/**
 * Creates an HTTP/2 server, with TLS if it is configured. New connections use the current content of the files. Open
 * connections keep their certificate.
 *
 * @param onRejected called with the reason when the certificate of a client is not accepted. With TLS 1.3 the client
 *   does not learn it, because its own handshake has ended before.
 */
export function createHttp2Server(
  options: http2.ServerOptions,
  tls: GrpcTls | undefined,
  onRequest: (request: http2.Http2ServerRequest, response: http2.Http2ServerResponse) => void,
  onRejected: (reason: string) => void,
): http2.Http2Server | http2.Http2SecureServer {
  if (!tls) return http2.createServer(options, onRequest);
  const material = () => ({ ...tls.files.current(), minVersion: MIN_VERSION }) as const;
  const server = http2.createSecureServer(
    {
      ...options,
      ...material(),
      requestCert: tls.requiresClientCertificate,
      rejectUnauthorized: tls.requiresClientCertificate,
      allowHTTP1: false,
    },
    onRequest,
  );
  server.on('tlsClientError', (error, socket) => {
    const reason = rejectionOf(error, socket);
    if (reason !== undefined) onRejected(reason);
  });
  server.once(
    'close',
    tls.files.onChange(() => server.setSecureContext(material())),
  );
  return server;
}

/** Why a client's certificate was not accepted; undefined for other failures, such as a probe that only connects. */
function rejectionOf(error: Error, { authorizationError }: TLSSocket): string | undefined {
  if (authorizationError) return String(authorizationError);
  const isMissing = Reflect.get(error, 'code') === 'ERR_SSL_PEER_DID_NOT_RETURN_A_CERTIFICATE';
  return isMissing ? 'the client sent none' : undefined;
}

/** Returns credentials with which a channel verifies the certificate and the name of the server. */
export function channelCredentials(tls: GrpcTls | undefined): ChannelCredentials {
  if (!tls) return credentials.createInsecure();
  const context = createSecureContext({ ...tls.files.current(), minVersion: MIN_VERSION });
  return credentials.createFromSecureContext(context);
}
