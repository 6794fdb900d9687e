import type { Namespace } from './kubectl.ts';

/** How a TCP connection ended: `open`, or the code of the error; a policy that drops packets is a `timeout`. */
export type Reached = string;

const CONNECT = `
const [host, port] = process.argv.slice(-2);
const socket = require('node:net').connect({ host, port: Number(port), timeout: 3000 });
const end = (text) => { console.log(text); process.exit(); };
socket.on('connect', () => end('open')).on('timeout', () => end('timeout')).on('error', (error) => end(error.code));
`;

/** Connects from a pod (`deployment/carts`) to an address. */
export async function connectFrom(
  space: Namespace,
  from: string,
  to: { readonly host: string; readonly port: number },
): Promise<Reached> {
  const command = ['node', '-e', CONNECT, to.host, String(to.port)];
  return (await space.kubectl('exec', from, '--', ...command)).trim();
}

/** Calls with an empty message: whether the caller may is decided before the message is read. */
const CALL = `
const grpc = require('@grpc/grpc-js');
const { readFileSync } = require('node:fs');
const [target, path, token] = process.argv.slice(-3);
const file = (name) => readFileSync('/var/run/rms/grpc-tls/' + name);
const tls = grpc.credentials.createSsl(file('ca.crt'), file('tls.key'), file('tls.crt'));
const client = new grpc.Client(target, tls);
const metadata = new grpc.Metadata();
metadata.set('authorization', 'Bearer ' + token);
const raw = (bytes) => bytes;
client.makeUnaryRequest(path, raw, raw, Buffer.alloc(0), metadata, { deadline: Date.now() + 5000 }, (error) => {
  console.log(grpc.status[error ? error.code : 0]);
  process.exit();
});
`;

export interface RpcProbe {
  readonly from: string;
  /** `returns:8080` */
  readonly target: string;
  /** `/rms.returns.v1.ReturnsService/FindReturn` */
  readonly path: string;
  readonly token: string;
}

/** Status of an RPC from a pod, with its certificate and the given token. */
export async function callFrom(space: Namespace, o: RpcProbe): Promise<string> {
  const command = ['node', '-e', CALL, o.target, o.path, o.token];
  return (await space.kubectl('exec', o.from, '--', ...command)).trim();
}

/** A token of a service account. */
export async function tokenOf(
  space: Namespace,
  account: string,
  audience: string,
): Promise<string> {
  return (await space.kubectl('create', 'token', account, '--audience', audience)).trim();
}
