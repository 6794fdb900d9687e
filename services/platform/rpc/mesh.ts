import type { ServiceConfig } from '../process/config.ts';

/** The header in which the proxies of a mesh name the peer of a call; undefined when no mesh encrypts. */
export type MeshHeader = ServiceConfig['MESH_IDENTITY_HEADER'];

/** Returns the header that the environment variables configure. */
export function meshHeaderFromConfig(
  o: Pick<ServiceConfig, 'TRANSPORT_SECURITY' | 'MESH_IDENTITY_HEADER'>,
): MeshHeader | undefined {
  return o.TRANSPORT_SECURITY === 'mesh' ? o.MESH_IDENTITY_HEADER : undefined;
}

/**
 * What a proxy writes about a peer whose certificate it has verified. Both proxies remove what the peer itself has sent:
 * Envoy on connections without a certificate, Linkerd always. Where callers go through several Envoys, the last one
 * appends its peer.
 */
const IDENTITY: Readonly<Record<MeshHeader, RegExp>> = {
  'x-forwarded-client-cert': /(?:^|[;,])\s*URI="?spiffe:\/\/[^/;,"]+\/[^,]*$/i,
  'l5d-client-id': /^[^\s,]+$/,
};

/** Addresses of loopback, with those from which Istio's proxy connects: 127.0.0.6 and ::6. */
const LOOPBACK = /^(?:(?:::ffff:)?127\.|::[16]$)/;

/** The addresses of a connection. */
interface Connection {
  readonly remoteAddress?: string | undefined;
  readonly localAddress?: string | undefined;
}

/**
 * Whether the proxy of this pod names the peer of the call. Only a connection from the pod itself is one of the proxy:
 * from loopback (Istio) or from the pod's own address (Linkerd). Others could send any header.
 */
export function hasMeshIdentity(
  header: MeshHeader,
  head: Headers,
  { remoteAddress, localAddress }: Connection,
): boolean {
  if (remoteAddress === undefined) return false;
  const isOfPod = LOOPBACK.test(remoteAddress) || remoteAddress === localAddress;
  return isOfPod && IDENTITY[header].test(head.get(header) ?? '');
}
