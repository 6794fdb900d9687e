import { Html, html } from './html.ts';
import { appText, type ConnectingApp, layout, problemText } from './layout.ts';

/** The page with the form for the e-mail address. Its field is `email`. */
export function emailPage(o: {
  readonly action: string;
  readonly app: ConnectingApp;
  readonly email?: string | undefined;
  readonly problem?: string | undefined;
}): string {
  const described =
    o.problem === undefined
      ? undefined
      : new Html(' aria-invalid="true" aria-describedby="problem"');
  return layout(
    o.problem === undefined ? 'Sign in' : 'Check your e-mail address',
    html`<h1>Sign in to connect your shop</h1>
<p class="lead">${appText(o.app)} asks to work with your returns.</p>
${problemText(o.problem)}
<form method="post" action="${o.action}">
<label for="email">E-mail address</label>
<input id="email" name="email" type="email" autocomplete="username" inputmode="email" autocapitalize="none" spellcheck="false" maxlength="320" required autofocus value="${o.email ?? ''}"${described}>
<button>Continue</button>
</form>
<p class="note">You sign in on the next page. This page never asks for a password.</p>`,
  );
}

/** The page with the form for the shop. Its field is `shop_id`. */
export function shopPage(o: {
  readonly action: string;
  readonly app: ConnectingApp;
  readonly shops: readonly { readonly shopId: bigint; readonly name: string }[];
  readonly problem?: string | undefined;
}): string {
  const choices = o.shops.map(
    ({
      shopId,
      name,
    }) => html`<label class="choice"><input type="radio" name="shop_id" value="${shopId}" required>${name}<small>no. ${shopId}</small></label>
`,
  );
  return layout(
    'Choose a shop',
    html`<h1>Which shop?</h1>
<p class="lead">${appText(o.app)} works in one shop at a time. You can connect another one later.</p>
${problemText(o.problem)}
<form method="post" action="${o.action}">
<fieldset>
<legend>Shop</legend>
${choices}</fieldset>
<button>Continue</button>
</form>`,
  );
}

/** A list below the text of a message. */
export interface MessageList {
  readonly title: string;
  readonly items: readonly string[];
}

/**
 * A page without a form field. With `cancel` it has a button that leads back to the app. With `next` it has a link to
 * another page of this service.
 */
export function messagePage(o: {
  readonly title: string;
  readonly text: string;
  readonly cancel?: string | undefined;
  readonly next?: { readonly href: string; readonly text: string };
  readonly list?: MessageList | undefined;
}): string {
  const back =
    o.cancel === undefined
      ? undefined
      : html`<form method="post" action="${o.cancel}"><button class="quiet">Back to the app</button></form>`;
  return layout(
    o.title,
    html`<h1>${o.title}</h1>
<p>${o.text}</p>
${
  o.list &&
  html`<p>${o.list.title}</p>
<ul>
${o.list.items.map(
  (item) => html`<li>${item}</li>
`,
)}</ul>`
}
${o.next && html`<p><a href="${o.next.href}">${o.next.text}</a></p>`}${back}`,
  );
}
