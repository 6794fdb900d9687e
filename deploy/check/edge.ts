import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';

// Attacks a public address as a stranger without a credential would, and says which limits are missing there.

/** Times in milliseconds. */
const HALF_SENT_MS = 20_000;
const HALF_SENT = 20;
const CONNECTIONS = 1_200;
const REQUESTS = 4_000;
/** More than the gateway takes of one address with wrong keys, and less than the edge does. */
const WRONG_KEYS = 500;
const WORKERS = 40;
const CALL_MS = 10_000;

export interface Finding {
  readonly name: string;
  readonly isMet: boolean;
  /** What to set. */
  readonly advice: string;
}

interface Answer {
  readonly status: number;
  readonly head: string;
  readonly body: string;
}

/**
 * Attacks an edge, and says after each attack what it found.
 *
 * @param base its public address, such as `https://returns.example.com`.
 * @param from the local address to attack from.
 * @throws Error when nothing answers at the address, so that nothing can be said of the rest.
 */
export async function* checkEdge(base: string, from?: string): AsyncGenerator<Finding> {
  const edge = edgeAt(base, from);
  const finding = async (name: string, isMet: boolean, advice: string): Promise<Finding> => {
    const { status } = await edge.call('GET /livez HTTP/1.1');
    if (status === 0) throw new Error(`${base} does not answer: not tried: ${name}`);
    return { name, isMet, advice };
  };

  const path = await edge.call('GET /api/2026-10/%2e%2e/a%2Fb#c HTTP/1.1');
  yield finding(
    'paths arrive as they were sent',
    path.status === 404 && isContract(path),
    'Pass encoded paths and `#` unchanged: the API answers them with 404 and JSON.',
  );
  const large = await edge.call('GET /livez HTTP/1.1', [`X-Large: ${'x'.repeat(15_000)}`]);
  yield finding(
    'heads of 16 KiB arrive',
    large.status === 200,
    'Allow request heads of at least 16 KiB.',
  );
  const many = Array.from({ length: 500 }, (_, n) => `X-Many-${n}: 1`);
  const { status } = await edge.call('GET /livez HTTP/1.1', many);
  yield finding(
    '500 headers are refused',
    status >= 400,
    'Allow at most 128 headers in a request.',
  );
  yield finding(
    'half-sent heads end',
    await edge.ends('GET /livez HTTP/1.1\r\nHost: x\r\nX-Slow: '),
    'End a connection whose head does not arrive within 10 s.',
  );
  yield finding(
    'half-sent bodies end',
    await edge.ends(
      'POST /partners/oauth/token HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\na',
    ),
    'End a connection whose small body does not arrive within 10 s.',
  );
  yield finding(
    'connections of one address are bounded',
    (await edge.open(CONNECTIONS)) < CONNECTIONS,
    'Allow at most some hundred connections of one address (IPv6: of a /64).',
  );
  const forged = await edge.flood(WRONG_KEYS, (n) => [
    `X-Forwarded-For: 203.0.113.${n % 250}`,
    `X-Authorization: wrong-${n}`,
  ]);
  yield finding(
    'X-Forwarded-For cannot be forged',
    forged.some((answer) => answer.status === 429),
    'Replace the X-Forwarded-For of strangers by their address, and name the edge in TRUSTED_PROXIES.',
  );
  const flood = await edge.flood(REQUESTS, () => []);
  const refused = flood.find((answer) => answer.status === 429);
  yield finding(
    'requests without a credential are bounded',
    refused !== undefined,
    'Answer 429 to an address with more than 1,000 requests without a credential in 10 s.',
  );
  if (!refused) return;
  yield finding(
    'refusals read like those of the API',
    isContract(refused) && /^retry-after: \d+/im.test(refused.head),
    'Answer with JSON ({"message", "errors"}), X-Request-Id and Retry-After.',
  );
}

/** Whether an answer has the form of the API's errors. */
function isContract({ head, body }: Answer): boolean {
  return /^x-request-id: ./im.test(head) && /^\{.*"message":/.test(body);
}

function edgeAt(base: string, from: string | undefined) {
  const url = new URL(base);
  const isTls = url.protocol === 'https:';
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const port = Number(url.port || (isTls ? 443 : 80));
  const dial = (): Socket => {
    const to = { host, port, ...(from !== undefined && { localAddress: from }) };
    const socket = isTls
      ? connectTls({ ...to, servername: host, ALPNProtocols: ['http/1.1'] })
      : connect(to);
    return socket.on('error', () => socket.destroy());
  };
  const closed = (socket: Socket, ms: number): Promise<boolean> =>
    Promise.race([
      new Promise<boolean>((done) => socket.once('close', () => done(true))),
      sleep(ms, false, { ref: false }),
    ]);

  async function call(requestLine: string, headers: readonly string[] = []): Promise<Answer> {
    const socket = dial();
    let text = '';
    socket.setEncoding('latin1').on('data', (part) => {
      text += part;
    });
    socket.write(
      [requestLine, `Host: ${url.host}`, 'Connection: close', ...headers, '', ''].join('\r\n'),
    );
    await closed(socket, CALL_MS);
    socket.destroy();
    const [head = '', body = ''] = text.split(/\r\n\r\n([\s\S]*)/);
    return { status: Number(/^HTTP\/1\.1 (\d+)/.exec(head)?.[1] ?? 0), head, body };
  }

  return {
    call,

    /** Whether all connections that send this and nothing more are closed in time. */
    async ends(bytes: string): Promise<boolean> {
      const sockets = Array.from({ length: HALF_SENT }, () => dial());
      for (const socket of sockets) socket.resume().write(bytes);
      const ended = await Promise.all(sockets.map((socket) => closed(socket, HALF_SENT_MS)));
      for (const socket of sockets) socket.destroy();
      return ended.every(Boolean);
    },

    /** Opens connections. Returns how many of them stay open. */
    async open(count: number): Promise<number> {
      const sockets = Array.from({ length: count }, () => dial());
      await sleep(3_000);
      const open = sockets.filter((socket) => socket.readyState === 'open').length;
      for (const socket of sockets) socket.destroy();
      return open;
    },

    /** Sends requests to the API, as fast as they are answered, until one is refused with 429. */
    async flood(
      count: number,
      headersOf: (n: number) => readonly string[],
    ): Promise<readonly Answer[]> {
      const answers: Answer[] = [];
      let sent = 0;
      let isRefused = false;
      const worker = async () => {
        while (sent < count && !isRefused) {
          sent += 1;
          const answer = await call('GET /api/2026-10/webhooks HTTP/1.1', headersOf(sent));
          isRefused ||= answer.status === 429;
          answers.push(answer);
        }
      };
      await Promise.all(Array.from({ length: WORKERS }, worker));
      return answers;
    },
  };
}
