interface Cookie {
  readonly value: string;
  readonly path: string;
  readonly attributes: string;
}

/** A response and its URL. */
export interface Shown {
  readonly url: URL;
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

const STEPS_MAX = 20;

/** A browser without scripts: cookies by name and path, one request at a time. */
export class Browser {
  readonly cookies = new Map<string, Cookie>();

  /** Sends one request. Redirects are returned and not followed. */
  async send(url: URL | string, init: RequestInit = {}): Promise<Shown> {
    const target = new URL(url);
    const response = await fetch(target, {
      ...init,
      redirect: 'manual',
      headers: { ...Object.fromEntries(new Headers(init.headers)), cookie: this.header(target) },
    });
    for (const line of response.headers.getSetCookie()) this.keep(target, line);
    const text = await response.text();
    return { url: target, status: response.status, headers: response.headers, text };
  }

  /** Follows redirects. Stops before a URL that begins with `until`. */
  async open(url: URL | string, until: string, init: RequestInit = {}): Promise<Shown> {
    let shown = await this.send(url, init);
    for (let step = 0; step < STEPS_MAX; step += 1) {
      const location = shown.headers.get('location');
      if (location === null) return shown;
      const next = new URL(location, shown.url);
      if (next.href.startsWith(until)) return { ...shown, url: next, status: 0, text: '' };
      shown = await this.send(next);
    }
    throw new Error(`no end after ${STEPS_MAX} redirects, at ${shown.url}`);
  }

  /** Submits the first form of a page, with its hidden fields and its button. */
  submit(shown: Shown, fields: Record<string, string>, until: string): Promise<Shown> {
    const { action, fields: own } = formOf(shown);
    const body = new URLSearchParams({ ...own, ...fields });
    return this.open(action, until, { method: 'POST', body });
  }

  private header({ pathname }: URL): string {
    const fitting = [...this.cookies].filter(([, { path }]) => isUnder(pathname, path));
    return fitting.map(([key, { value }]) => `${key.split(' ')[0]}=${value}`).join('; ');
  }

  private keep({ pathname }: URL, line: string): void {
    const [pair = '', ...attributes] = line.split(';').map((part) => part.trim());
    const [name = '', value = ''] = pair.split('=');
    const path = attributes.find((one) => /^path=/i.test(one))?.slice(5) ?? pathname;
    const isGone = attributes.some((one) => /^expires=thu, 01 jan 1970/i.test(one));
    if (isGone) this.cookies.delete(`${name} ${path}`);
    else this.cookies.set(`${name} ${path}`, { value, path, attributes: attributes.join('; ') });
  }
}

function isUnder(pathname: string, path: string): boolean {
  return pathname === path || pathname.startsWith(path.endsWith('/') ? path : `${path}/`);
}

/** The first form of a page: its URL and its hidden fields. */
export function formOf({ url, text }: Shown): { action: URL; fields: Record<string, string> } {
  const [form = ''] = /<form.*?<\/form>/s.exec(text) ?? [];
  const action = /<form[^>]*action="([^"]+)"/.exec(form)?.[1];
  if (action === undefined) throw new Error(`no form at ${url}: ${text}`);
  const named = /<(?:input type="hidden"|button[^>]*?) name="([^"]+)" value="([^"]*)"/g;
  const fields = [...form.matchAll(named)].map(([, name, value]) => [name, value]);
  return { action: new URL(action, url), fields: Object.fromEntries(fields) };
}
