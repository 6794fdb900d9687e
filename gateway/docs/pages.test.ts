import { readFile } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  ERROR_HELP,
  type ErrorHelp,
  PROCESS_REFUSAL_HELP,
} from '../../services/contract/error-help.ts';
import { type Received, restClient, type Sent } from '../../test/kit/gateway/rest-client.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';
import { COPY_PATH } from './copy-button.ts';
import { ERROR_EXAMPLES } from './errors-page.ts';
import { renderMarkdown } from './markdown.ts';
import { DOCS_PATHS, RECEIVER_FILES } from './paths.ts';

describe('the pages', () => {
  let under: TestGateway;
  let send: ReturnType<typeof restClient>;
  beforeAll(async () => {
    under = await startTestGateway({
      PARTNER_ISSUER: 'https://login.example.org/',
      PARTNER_JWKS_URL: 'https://login.example.org/jwks',
      DOCS_OAUTH_CLIENT_ID: 'reference-client',
      PUBLIC_BASE_URL: 'https://gateway.example.org',
    });
    send = restClient(under);
  });
  afterAll(() => under?.stop());

  const get = (path: string, headers = {}) => send({ path, key: null, headers });

  const { reference, icon, oauthRedirect, ...texts } = DOCS_PATHS;
  const PAGES = Object.values(texts);

  describe.each(PAGES)('%s', (path) => {
    test('is a page that runs no script but the one of the copy buttons, and loads nothing from elsewhere', async () => {
      const { status, headers, text } = await get(path);
      expect([status, headers['content-type']]).toEqual([200, 'text/html; charset=utf-8']);
      expect(text).toMatch(/^<!doctype html>\n<html lang="en">/);
      expect(text).toContain(
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
      );
      expect(text.match(/<h1/g)).toHaveLength(1);
      const own = text.includes('<pre') ? [`<script src="${COPY_PATH}" defer></script>`] : [];
      expect(text.match(/<script[\s\S]*?<\/script>/g) ?? []).toEqual(own);
      expect(own.reduce((rest, script) => rest.replace(script, ''), text)).not.toMatch(
        /<script|<form|style="|src=/,
      );
      const policy = String(headers['content-security-policy']);
      expect(policy).toMatch(
        /^default-src 'none'; script-src 'self'; style-src 'sha256-[A-Za-z0-9+/=]+'; img-src 'self'; /,
      );
      expect(policy).not.toMatch(/unsafe|https?:|\*/);
    });

    test('is kept by browsers, which ask whether it changed', async () => {
      const first = await get(path);
      expect(first.headers['cache-control']).toBe('no-cache');
      const etag = String(first.headers.etag);
      expect(etag).toMatch(/^W\/"[\w-]{22}"$/);
      const again = await get(path, { 'if-none-match': etag });
      expect([again.status, again.text]).toEqual([304, '']);
      const changed = await get(path, { 'if-none-match': 'W/"other"' });
      expect([changed.status, changed.text]).toEqual([200, first.text]);
    });

    test('is compressed', async () => {
      const response = await fetch(`${under.gateway.baseUrl}${path}`, {
        headers: { 'accept-encoding': 'gzip' },
      });
      expect(response.headers.get('content-encoding')).toBe('gzip');
      expect(await response.text()).toContain('<h1');
    });

    test('has no id twice, and only links that lead somewhere', async () => {
      const { text } = await get(path);
      const ids = idsOf(text);
      expect(ids).toEqual([...new Set(ids)]);
      const links = [...text.matchAll(/href="([^"]+)"/g)].map(([, href = '']) => href);
      expect(links.length).toBeGreaterThan(5);
      const broken: string[] = [];
      for (const link of new Set(links.filter((one) => !one.startsWith('https:')))) {
        const [target = '', anchor] = link.split('#');
        const { status, text: other } = target === '' ? { status: 200, text } : await get(target);
        // The page of the portal is not built here.
        const leads = status === 200 || target === '/portal';
        if (!leads || (anchor !== undefined && !idsOf(other).includes(anchor))) broken.push(link);
      }
      expect(broken).toEqual([]);
    });
  });

  function idsOf(page: string): string[] {
    return [...page.matchAll(/ id="([^"]+)"/g)].map(([, id = '']) => id);
  }

  /** The names of the fields of a body. After each name, in brackets, come the names of the fields of its value. */
  function formOf(body: unknown): string {
    if (typeof body !== 'object' || body === null || Array.isArray(body)) return '';
    return Object.entries(body)
      .map(([name, value]) => `${name}(${formOf(value)})`)
      .toSorted()
      .join();
  }

  /** The examples of all 4xx and 5xx responses of an OpenAPI document. */
  function errorBodiesIn(document: {
    paths: object;
    components: { responses: object };
  }): unknown[] {
    const shared = Object.values(document.components.responses);
    const own = Object.values(document.paths)
      .flatMap((path: object) => Object.values(path))
      .flatMap(({ responses }) => Object.entries<object>(responses))
      .filter(([status]) => Number(status) >= 400)
      .map(([, response]) => response);
    return [...shared, ...own]
      .flatMap(({ content }) => Object.values<Examples>(content ?? {}))
      .flatMap(({ example, examples = {} }) => [
        ...(example === undefined ? [] : [example]),
        ...Object.values(examples).map(({ value }) => value),
      ]);
  }
  interface Examples {
    readonly example?: unknown;
    readonly examples?: Readonly<Record<string, { readonly value: unknown }>>;
  }

  test('/ and /docs/ lead to the first page', async () => {
    expect(await get('/')).toMatchObject({ status: 302, headers: { location: '/docs' } });
    expect(await get('/docs/')).toMatchObject({ status: 308, headers: { location: '/docs' } });
  });

  test('the first page leads to everything else', async () => {
    const { text } = await get('/docs');
    for (const path of [...PAGES, '/portal', '/openapi/2026-10.json']) {
      expect(text).toContain(`href="${path}"`);
    }
    for (const version of ['2026-07', '2026-10', 'unstable']) {
      expect(text).toContain(`href="${reference}/${version}"`);
    }
  });

  test('the page of assistants has the address of this gateway', async () => {
    const { text } = await get(DOCS_PATHS.mcp);
    expect(text).toContain(
      'claude mcp add --transport http returns https://gateway.example.org/mcp',
    );
    expect(text).toContain('<code>https://gateway.example.org/mcp</code>');
    expect(text).not.toContain('your host');
  });

  test('the commands of the quickstart have the address of this gateway', async () => {
    const { text } = await get(DOCS_PATHS.quickstart);
    expect(text).not.toContain('returns.example.com');
    expect(text).toContain('BASE=https://gateway.example.org');
  });

  test.each([
    ...[DOCS_PATHS.quickstart, DOCS_PATHS.webhooks, DOCS_PATHS.receivers, DOCS_PATHS.errors],
    ...[DOCS_PATHS.mcp, DOCS_PATHS.tools],
  ])('%s names nothing that only the repository or an operator has', async (path) => {
    const { text } = await get(path);
    expect(text).not.toMatch(
      /(services|gateway|test|deploy|proto)\/|\.test\.|\bADR\b|npm (test|run)/,
    );
    const settings = await readFile(
      new URL('../../docs/configuration.md', import.meta.url),
      'utf8',
    );
    const names = [...settings.matchAll(/^- `([A-Z][A-Z_]+)`/gm)].map(([, name = '']) => name);
    expect(names).toContain('SMTP_URL');
    const known = names.filter((name) => name.includes('_') && text.includes(`>${name}<`));
    expect(known).toEqual([]);
  });

  test('the changelog has an anchor for each version and entry', async () => {
    const ids = idsOf((await get(DOCS_PATHS.changelog)).text);
    expect(ids).toEqual(expect.arrayContaining(['2026-07', '2026-10', '2026-10-breaking']));
  });

  test('the page of errors has every code', async () => {
    const ids = idsOf((await get(DOCS_PATHS.errors)).text);
    const codes = [...Object.keys(ERROR_HELP), ...Object.keys(PROCESS_REFUSAL_HELP)];
    expect(ids).toEqual(expect.arrayContaining(codes));
  });

  test('the page of errors shows every form of an error body that the OpenAPI document has', async () => {
    const shown = [
      ...(await get(DOCS_PATHS.errors)).text.matchAll(/<code>(\{.*?\})<\/code>/gs),
    ].map(([, code = '']) => formOf(JSON.parse(code.replaceAll('&#34;', '"'))));
    for (const version of ['2026-10', 'unstable']) {
      const { text } = await get(`/openapi/${version}.json`);
      const forms = errorBodiesIn(JSON.parse(text)).map(formOf);
      expect(forms.length).toBeGreaterThan(20);
      expect([...new Set(forms)].filter((form) => !shown.includes(form))).toEqual([]);
    }
  });

  test('an unknown page is a page with links for a browser, and JSON for a program', async () => {
    const accept = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8';
    const page = await get('/docs/nonsense', { accept });
    expect([page.status, page.headers['content-type']]).toEqual([404, 'text/html; charset=utf-8']);
    expect(page.headers).toMatchObject({ vary: 'Accept', 'cache-control': 'no-store' });
    expect(page.headers['content-security-policy']).toMatch(
      /^default-src 'none'; script-src 'self'; style-src 'sha256-/,
    );
    for (const path of [DOCS_PATHS.quickstart, DOCS_PATHS.errors, reference]) {
      expect(page.text).toContain(`<li><a href="${path}">`);
    }
    for (const headers of [{}, { accept: '*/*' }, { accept: 'application/json' }]) {
      const { status, body } = await get('/docs/nonsense', headers);
      expect({ status, body }).toEqual({
        status: 404,
        body: { message: 'There is nothing at this path.', errors: {} },
      });
    }
  });

  test.each(RECEIVER_FILES)('%s is served as it is in the repository', async (name) => {
    const { status, headers, text } = await get(`${DOCS_PATHS.receivers}/${name}`);
    expect([status, headers['content-type']]).toEqual([200, 'text/plain; charset=utf-8']);
    expect(headers['content-security-policy']).toContain("default-src 'none'");
    expect(text).toBe(
      await readFile(new URL(`../../docs/receivers/${name}`, import.meta.url), 'utf8'),
    );
  });

  describe('the API reference', () => {
    test('may call this service and the token endpoint of the partners, and nothing else', async () => {
      for (const path of [reference, `${reference}/2026-07`]) {
        const { status, headers } = await get(path);
        expect(status).toBe(200);
        const policy = String(headers['content-security-policy']);
        expect(policy).toContain("connect-src 'self' https://login.example.org;");
        expect(policy).toContain("default-src 'none'; script-src 'self';");
      }
    });
    test('signs in with the client of the settings', async () => {
      const { text } = await get(`${reference}/start.js`);
      expect(text).toContain('"clientId":"reference-client"');
      expect(text).toContain('"usePkceWithAuthorizationCodeGrant":true');
    });
    test('has a page for the way back from the sign-in, with one script', async () => {
      const { status, headers, text } = await get(oauthRedirect);
      expect(status).toBe(200);
      expect(headers['content-security-policy']).toBe("default-src 'none'; script-src 'self'");
      const [, script = ''] = /<script src="([^"]+)">/.exec(text) ?? [];
      expect((await get(script)).status).toBe(200);
    });
    test('is compressed', async () => {
      const response = await fetch(`${under.gateway.baseUrl}/docs/assets/swagger-ui-bundle.js`, {
        headers: { 'accept-encoding': 'gzip, br' },
      });
      expect(response.headers.get('content-encoding')).toBe('br');
      expect((await response.text()).length).toBeGreaterThan(1_000_000);
    });
  });

  test('without the documentation, only what responses link to is served', async () => {
    const quiet = await startTestGateway({ DOCS_ENABLED: false });
    const ask = restClient(quiet);
    const statuses = new Map<string, number>();
    for (const path of ['/', ...Object.values(DOCS_PATHS)]) {
      statuses.set(path, (await ask({ path, key: null })).status);
    }
    const changelog = await ask({ path: DOCS_PATHS.changelog, key: null });
    await quiet.stop();
    const served = [...statuses].filter(([, status]) => status === 200).map(([path]) => path);
    expect(served.toSorted()).toEqual([DOCS_PATHS.changelog, DOCS_PATHS.errors, icon].toSorted());
    expect(changelog.text).not.toContain(`href="${DOCS_PATHS.quickstart}"`);
  });
});

describe('the page of errors', () => {
  let under: TestGateway;
  let send: (sent: Sent) => Promise<Received>;
  beforeAll(async () => {
    under = await startTestGateway();
    send = restClient(under);
  });
  afterAll(() => under?.stop());

  /** The example of a code on the page of errors: its head and its body. */
  async function shownFor(code: string) {
    const { text } = await send({ path: DOCS_PATHS.errors, key: null });
    const [, section = ''] = text.split(`<h2 id="${code}">`);
    const [, shown = ''] =
      /<code>(HTTP\/1\.1 .*?)<\/code>/s.exec(section.split('<h2')[0] ?? '') ?? [];
    const plain = shown.replace(/&#(\d+);/g, (_, code) => String.fromCharCode(Number(code)));
    const [head = '', body = ''] = plain.split('\n\n');
    const [, status] = /^HTTP\/1\.1 (\d{3}) [A-Z]/.exec(head) ?? [];
    return { head, body, status: Number(status) };
  }

  test.each<[string, ErrorHelp]>(Object.entries(ERROR_HELP))(
    'the page of errors shows a response with %s',
    async (code, { statuses }) => {
      const { head, body, status } = await shownFor(code);
      expect(statuses).toContain(status);
      expect(head).toContain(`Link: </docs/errors#${code}>; rel="help"`);
      expect(Object.keys(JSON.parse(body))).not.toEqual([]);
    },
  );

  test.each(Object.keys(PROCESS_REFUSAL_HELP))('it shows a 200 with %s', async (code) => {
    const { body, status } = await shownFor(code);
    expect(status).toBe(200);
    expect(JSON.parse(body)).toEqual({ errors: { code, message: expect.any(String) } });
  });

  const JSON_TYPE = { 'content-type': 'application/json' };

  test.each([
    ['BAD_REQUEST', { path: '/api/v1/cart', raw: '[]', headers: JSON_TYPE }],
    ['UNAUTHORIZED', { path: '/api/v1/cart', key: 'rms_wrong', json: {} }],
    ['NOT_FOUND', { path: '/api/v1/webhooks/12' }],
    ['METHOD_NOT_ALLOWED', { path: '/api/v1/webhooks/12', method: 'PATCH' }],
    ['UNSUPPORTED_MEDIA_TYPE', { path: '/api/v1/cart', raw: '{}' }],
    ['VALIDATION_FAILED', { path: '/api/v1/webhooks', json: { topic: 'return', event: 'x' } }],
  ] as const)('the example of %s is what the gateway answers', async (code, sent: Sent) => {
    const { error, headers } = ERROR_EXAMPLES[code];
    const response = await send(sent);
    expect([response.status, response.body]).toEqual([error.status, error.body]);
    for (const [name, value] of Object.entries(headers)) {
      expect(response.headers[name.toLowerCase()]).toBe(value);
    }
  });
});

describe('markdown', () => {
  const render = (text: string, hasEntries = false) =>
    renderMarkdown(text, {
      linkTo: (href) => (href === 'other.md' ? '/docs/other' : undefined),
      hasEntries,
    }).body.text;

  /** Every id of a page, in order. */
  const idsOf = (page: string) => [...page.matchAll(/ id="([^"]*)"/g)].map(([, id]) => id);

  describe('a page in Markdown', () => {
    test.each([
      '<script>alert(1)</script>',
      'a <img src=x onerror=alert(1)> b',
      '<div onclick="alert(1)">\n\ntext',
      '![alt](https://example.com/x.png)',
    ])('shows HTML and images as text: %s', (text) => {
      expect(render(`# T\n\n${text}\n`)).not.toMatch(/<(script|img|div)/);
    });

    test('code is escaped once, and scrolls with the keys', () => {
      expect(render('# T\n\n```sh\nID=<your "id"> & x\n```\n')).toContain(
        '<pre tabindex="0"><code>ID=&#60;your &#34;id&#34;&#62; &#38; x</code></pre>',
      );
    });

    test('links to what is served are links, others are text', () => {
      expect(render('# T\n\n[a](other.md) and [b](src/main.ts)\n')).toContain(
        '<p><a href="/docs/other">a</a> and b</p>',
      );
    });

    test('wide tables scroll by themselves', () => {
      expect(render('# T\n\n| a |\n|---|\n| `b` |\n')).toMatch(
        /<div class="wide" tabindex="0"><table>.*<code>b<\/code>.*<\/table>\n<\/div>/s,
      );
    });

    test('headings have the ids of GitHub, and a repeated one a number', () => {
      const page = render('# The `title`\n\n## 1. A & b\n\n## Same\n\n## Same\n');
      expect(idsOf(page)).toEqual(['the-title', '1-a--b', 'same', 'same-1']);
    });

    test('a long page lists its headings', () => {
      const headings = ['One', 'Two', 'Three', 'Four'].map((word) => `## ${word}\n\ntext\n`);
      expect(render(`# T\n\n${headings.join('\n')}`)).toMatch(
        /<\/h1>\n<details>.*href="#four".*<\/details>/s,
      );
      expect(render('# T\n\n## One\n')).not.toContain('<details>');
    });
  });

  describe('entries of a changelog', () => {
    const log = `# Log

## 2026-10

- **Breaking.** A thing:
  - nested
- \`GET /x\` (scope \`y\`): more words than are needed for an id
- **Texts.** b

### 2026-11: webhooks

- **Texts.** a
- **Texts.** b
`;
    test('have ids by section and label', () => {
      expect(idsOf(render(log, true))).toEqual([
        'log',
        '2026-10',
        ...['2026-10-breaking', '2026-10-get-x', '2026-10-texts'],
        '2026-11-webhooks',
        ...['2026-11-webhooks-texts', '2026-11-webhooks-texts-1'],
      ]);
    });
    test('keep their ids when another section gets entries', () => {
      const before = idsOf(render(log, true));
      const after = idsOf(render(log.replace('### 2026-11', '- **New.** c\n\n### 2026-11'), true));
      expect(after).toEqual(expect.arrayContaining(before));
    });
    test('have no ids on other pages', () => {
      expect(idsOf(render(log))).toEqual(['log', '2026-10', '2026-11-webhooks']);
    });
  });
});
