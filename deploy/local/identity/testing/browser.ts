/** The current URL of a browser, and the page there. */
export interface Page {
  readonly url: URL;
  /** 0 for a URL that was not requested. */
  readonly status: number;
  readonly text: string;
  readonly headers: Headers;
  /** By name; the value is `name=value`. */
  readonly cookies: ReadonlyMap<string, string>;
  /** The pages with a form that was sent, in order. */
  readonly pages: readonly { readonly status: number; readonly text: string }[];
}

const STEPS_MAX = 20;

/**
 * Follows redirects with cookies, and fills in and sends the first form of each page once.
 *
 * @param o.fields values by name, for the fields of all forms.
 * @param o.until stops at URLs with this prefix, without requesting them.
 * @param o.stopAt stops at the page with this text.
 * @param o.cookies passed by the caller to reuse the cookies of the same browser.
 */
export async function browse(
  start: URL,
  o: {
    readonly fields: Readonly<Record<string, string>>;
    readonly until: string;
    readonly stopAt?: string;
    readonly cookies?: Map<string, string>;
  },
): Promise<Page> {
  const cookies = o.cookies ?? new Map<string, string>();
  const sent = new Set<string>();
  const pages: { status: number; text: string }[] = [];
  let url = start;
  let body: URLSearchParams | undefined;
  for (let step = 0; step < STEPS_MAX; step += 1) {
    if (url.href.startsWith(o.until))
      return { url, status: 0, text: '', headers: new Headers(), cookies, pages };
    const response = await fetch(url, {
      redirect: 'manual',
      headers: { cookie: [...cookies.values()].join('; ') },
      ...(body && { method: 'POST', body }),
    });
    for (const cookie of response.headers.getSetCookie()) {
      const [pair = ''] = cookie.split(';');
      cookies.set(pair.split('=', 1)[0] ?? '', pair);
    }
    const text = await response.text();
    const location = response.headers.get('location');
    const action = /<form[^>]*action="([^"]+)"/.exec(text)?.[1];
    body = undefined;
    if (location) url = new URL(location, url);
    else if (
      action === undefined ||
      sent.has(action) ||
      (o.stopAt !== undefined && text.includes(o.stopAt))
    )
      return { url, status: response.status, text, headers: response.headers, cookies, pages };
    else {
      pages.push({ status: response.status, text });
      sent.add(action);
      url = new URL(action, url);
      body = filledIn(text, o.fields);
    }
  }
  throw new Error(`no end after ${STEPS_MAX} steps, at ${url.href}`);
}

/** The first form of a page with its hidden fields and its first button, and `fields` that it has. */
function filledIn(page: string, fields: Readonly<Record<string, string>>): URLSearchParams {
  const [form = ''] = /<form.*?<\/form>/s.exec(page) ?? [];
  const own = /<(?:input type="hidden"|button[^>]*?) name="([^"]+)" value="([^"]*)"/g;
  const values = new Map(
    [...form.matchAll(own)].map(([, name = '', value = '']) => [name, value] as const),
  );
  for (const [, name = ''] of form.matchAll(/<(?:input|select|button)[^>]*name="([^"]+)"/g)) {
    const value = fields[name];
    if (value !== undefined) values.set(name, value);
  }
  return new URLSearchParams(Object.fromEntries(values));
}
