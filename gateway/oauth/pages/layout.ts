import { Html, html } from './html.ts';
import { STYLE } from './style.ts';

/** The client that wants to connect: its name when known, and the host that gets the code. */
export interface ConnectingApp {
  readonly name: string | undefined;
  readonly host: string;
}

/** The picture and the name of this service. */
export const BRAND = html`<svg viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="1.8" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true" focusable="false"><path d="M3 8.5 12 4l9 4.5v8L12 21l-9-4.5z"/><path d="M3 8.5 12 13l9-4.5M12 13v8"/></svg>
Returns Management`;

/**
 * The icon of the portal as a data URL in the page. Without an icon in the page, a browser requests `/favicon.ico` and
 * reports that it is absent.
 */
const ICON = `data:image/svg+xml,${encodeURIComponent(
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="8" fill="#0b57c9"/><path d="M11 9 6.5 13.5 11 18M7 13.5h11.5a5 5 0 0 1 0 10H13" fill="none" stroke="#fff" stroke-width="2.5" stroke-linecap="round" stroke-linejoin="round"/></svg>',
)}`;

/**
 * Returns a complete HTML document with this style.
 *
 * @param o.head additional elements of the head.
 * @param o.language of its texts; English when absent.
 * @param o.site follows the title in the browser's window; `Returns` when absent.
 */
export function htmlDocument(
  title: string,
  o: {
    readonly style: string;
    readonly body: Html;
    readonly head?: Html;
    readonly language?: string;
    readonly site?: string;
  },
): string {
  return html`<!doctype html>
<html lang="${o.language ?? 'en'}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
${o.head}<title>${title} · ${o.site || 'Returns'}</title>
<style>${new Html(o.style)}</style>
</head>
<body>
${o.body}
</body>
</html>
`.text;
}

/**
 * Returns a complete page with a form or a message. @param title title of the browser window. The heading is a part of
 * `body`.
 */
export function layout(title: string, body: Html): string {
  return htmlDocument(title, {
    style: STYLE,
    head: html`<meta name="robots" content="noindex">
<link rel="icon" type="image/svg+xml" href="${ICON}">
`,
    body: html`<main>
<p class="brand">
${BRAND}
</p>
${body}
</main>`,
  });
}

/** The name of the app in the first sentence of a page. */
export function appText({ name, host }: ConnectingApp): Html {
  return name === undefined
    ? html`An app at <strong>${host}</strong>`
    : html`<strong>${name}</strong> (${host})`;
}

/** The text about a problem with the form that the user sent. */
export function problemText(problem: string | undefined): Html | undefined {
  return problem === undefined
    ? undefined
    : html`<p class="problem" id="problem" role="alert">${problem}</p>`;
}

/** A list of names and values, such as the app and the shop that the user decides about. */
export function definitionList(rows: readonly (readonly [string, Html | string])[]): Html {
  const lines = rows.map(
    ([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>
`,
  );
  return html`<dl>
${lines}</dl>`;
}

/**
 * The two forms in which the user allows or denies a request. Both have the hidden field `csrf` and buttons with the
 * name `consent`.
 *
 * @param o.choices additional fields of the form that allows.
 */
export function decision(o: {
  readonly allow: string;
  readonly deny: string;
  readonly csrf: string;
  readonly choices?: Html;
}): Html {
  const csrf = html`<input type="hidden" name="csrf" value="${o.csrf}">`;
  return html`<form method="post" action="${o.allow}">${csrf}${o.choices}<button name="consent" value="allow">Allow</button></form>
<form method="post" action="${o.deny}">${csrf}<button class="quiet" name="consent" value="deny">Deny</button></form>`;
}
