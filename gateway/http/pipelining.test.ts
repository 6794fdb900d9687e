import type { ServerResponse } from 'node:http';
import { afterEach, describe, expect, test } from '@jest/globals';
import { closeAll, HEAD, serve } from '../../test/kit/gateway/http-bench.ts';
import { until } from '../../test/kit/until.ts';

afterEach(closeAll);

describe('a client that sends several requests at once', () => {
  const GET = `GET / HTTP/1.1\r\n${HEAD}\r\n`;

  test('gets the responses in order, and each request is handled after the previous response', async () => {
    const began: number[] = [];
    const concurrent: number[] = [];
    let inProgress = 0;
    const { client } = await serve((req, res) => {
      const nth = Number(req.headers.nth);
      began.push(nth);
      inProgress += 1;
      concurrent.push(inProgress);
      res.once('finish', () => {
        inProgress -= 1;
      });
      setTimeout(() => res.end(`ok ${nth};`), 10 - nth);
    });
    const nths = Array.from({ length: 10 }, (_, nth) => nth);
    const requestOf = (nth: number) => GET.replace(HEAD, `${HEAD}nth: ${nth}\r\n`);
    const one = await client(nths.map(requestOf).join(''));
    await until(() => one.received().includes('ok 9;'));
    expect([began, Math.max(...concurrent)]).toEqual([nths, 1]);
    expect([...one.received().matchAll(/ok (\d);/g)].map(([, nth]) => Number(nth))).toEqual(nths);
    // The connection is still usable.
    one.socket.write(requestOf(0));
    await until(() => one.received().match(/ok 0;/g)?.length === 2);
  });

  test('is disconnected if there are too many, and only the first is handled', async () => {
    const handled: ServerResponse[] = [];
    const { client, open, ended } = await serve((_req, res) => void handled.push(res));
    const one = await client(GET.repeat(1_400));
    await until(() => one.isOver() && open() === 0);
    expect(ended).toEqual(['too many requests']);
    expect(handled).toHaveLength(1);
    await until(() => handled[0]?.closed);
  });

  test('is disconnected if 256 other connections have several requests; those with one are not', async () => {
    const pending: ServerResponse[] = [];
    const { client, open, ended } = await serve((_req, res) => void pending.push(res));
    for (let nth = 0; nth < 256; nth += 1) await client(GET.repeat(2));
    await until(() => pending.length === 256);
    await client(GET);
    await until(() => pending.length === 257);
    const last = await client(GET.repeat(2));
    await until(() => last.isOver() && open() === 257);
    expect(ended).toEqual(['too many requests']);
    // A connection that has got its responses makes way.
    pending[0]?.end('ok');
    await until(() => pending.length === 259);
    await client(GET.repeat(2));
    await until(() => pending.length === 260);
    expect([open(), ended]).toEqual([258, ['too many requests']]);
  });

  test('that disconnects: the requests that wait are not handled', async () => {
    const handled: ServerResponse[] = [];
    const { client, open } = await serve((_req, res) => void handled.push(res));
    const one = await client(GET.repeat(3));
    await until(() => handled.length === 1);
    one.socket.destroy();
    await until(() => handled[0]?.closed && open() === 0);
    await new Promise((resolve) => setImmediate(resolve));
    expect(handled).toHaveLength(1);
  });

  test('gets no response after one with `Connection: close`, and those requests are not handled', async () => {
    let handled = 0;
    const { client, open } = await serve((_req, res) => {
      handled += 1;
      res.setHeader('Connection', 'close').end('ok');
    });
    const one = await client(GET.repeat(3));
    await until(() => one.isOver() && open() === 0);
    expect([handled, one.received().match(/ok/g)]).toEqual([1, ['ok']]);
  });
});
