import { type Html, html } from '../oauth/pages/html.ts';
import { htmlDocument } from '../oauth/pages/layout.ts';
import { type PageResponse, page, RETRY_AFTER_S } from '../oauth/pages/response.ts';
import { shopStyle } from './look.ts';
import { LANGUAGES, type Words, wordsIn } from './words.ts';

/** Below the address of a shop's page. Every page links to it (Directive 2011/83/EU, Article 11a(1)). */
export const WITHDRAW = 'withdraw';

/** What every page of a shop shows. */
export interface View {
  readonly words: Words;
  readonly shopName: string;
  /** The address of the shop's page, from `/r` on. */
  readonly base: string;
  /** The address that shows this page again, for the choice of the language. */
  readonly here: string;
  readonly accent: string;
  /** Empty without one. */
  readonly supportEmail: string;
}

/** Makes a page of a shop. */
export function shopperPage(
  view: View,
  o: { readonly title: string; readonly body: Html; readonly status?: number },
): PageResponse {
  const { words, shopName, here } = view;
  const style = shopStyle(view.accent);
  const languages = LANGUAGES.map((one) => {
    const current = one === words.language ? html` aria-current="true"` : undefined;
    return html`<a href="${here}?lang=${one}" lang="${one}" hreflang="${one}"${current}>${wordsIn(one).text('language')}</a>
`;
  });
  const help =
    view.supportEmail === ''
      ? undefined
      : html`<p>${words.text('help', { email: view.supportEmail })}</p>`;
  const document = htmlDocument(o.title, {
    style,
    language: words.language,
    site: shopName,
    head: html`<meta name="robots" content="noindex">
`,
    body: html`<main>
<header>
<span class="shop">${words.text('returnsOf', { shop: shopName })}</span>
<nav aria-label="${words.text('languages')}">
${languages}</nav>
</header>
${o.body}
${
  shopName === ''
    ? undefined
    : html`<footer><p><a class="withdraw" href="${view.base}/${WITHDRAW}">${words.text('withdrawLink')}</a></p>${help}</footer>`
}
</main>`,
  });
  return page(document, {
    status: o.status ?? 200,
    style,
    formTargets: ["'self'"],
    images: ['https:'],
  });
}

/** A page with a sentence, and a link to the first page. */
export function notePage(
  view: View,
  o: { readonly title: string; readonly text: string; readonly status: number },
): PageResponse {
  const { status, title } = o;
  const made = shopperPage(view, {
    ...{ status, title },
    body: html`<h1>${title}</h1>
<p>${o.text}</p>
<p><a class="action" href="${view.base}">${view.words.text('start')}</a></p>`,
  });
  if (status !== 503 && status !== 429) return made;
  const seconds = status === 429 ? 60 : RETRY_AFTER_S;
  return { ...made, headers: { ...made.headers, 'Retry-After': String(seconds) } };
}
