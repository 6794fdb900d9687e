const STYLE = `
  :root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
  body { margin: 0; min-height: 100vh; display: grid; place-items: center; }
  main { width: min(22rem, 90vw); }
  label { display: block; margin-top: 1rem; }
  input, select, button { font: inherit; width: 100%; box-sizing: border-box; padding: .6rem; margin-top: .25rem; }
  button { margin-top: 1.5rem; }
  [role=alert] { color: light-dark(#a00, #f99); }
`;

function page(title: string, body: string): string {
  return `<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title><style>${STYLE}</style></head><body><main><h1>${title}</h1>${body}</main></body></html>`;
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

/** The sign-in form: fields `email` and `password`. */
export function signInPage(action: string, options: { email?: string; failed?: boolean }): string {
  return page(
    'Sign in',
    `${options.failed ? '<p role="alert">That e-mail address and password do not belong together.</p>' : ''}
<form method="post" action="${escapeHtml(action)}">
<label>E-mail address<input name="email" type="email" autocomplete="username" required value="${escapeHtml(options.email ?? '')}"></label>
<label>Password<input name="password" type="password" autocomplete="current-password" required></label>
<button>Sign in</button></form>`,
  );
}

/** The form to choose the shop that an app acts for: field `shop_id`. */
export function shopPage(action: string, clientId: string, shopIds: readonly number[]): string {
  const options = shopIds.map((id) => `<option value="${id}">Shop ${id}</option>`).join('');
  return page(
    'Choose a shop',
    `<p>${escapeHtml(clientId)} asks to act for one of your shops.</p>
<form method="post" action="${escapeHtml(action)}">
<label>Shop<select name="shop_id">${options}</select></label><button>Allow</button></form>`,
  );
}

export function messagePage(title: string, text: string): string {
  return page(escapeHtml(title), `<p>${escapeHtml(text)}</p>`);
}
