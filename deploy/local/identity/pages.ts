import type { errors, KoaContextWithOIDC } from 'oidc-provider';
import { Html, html } from '../../../gateway/oauth/pages/html.ts';
import { layout, problemText } from '../../../gateway/oauth/pages/layout.ts';
import { messagePage } from '../../../gateway/oauth/pages/pages.ts';
import {
  badRequest,
  ended,
  type PageResponse,
  page,
} from '../../../gateway/oauth/pages/response.ts';

/** The sign-in form: fields `email` and `password`. */
export function signInPage(o: {
  readonly action: string;
  readonly email: string;
  readonly problem?: string;
}): string {
  const described =
    o.problem === undefined
      ? undefined
      : new Html(' aria-invalid="true" aria-describedby="problem"');
  return layout(
    o.problem === undefined ? 'Sign in' : 'Check your e-mail address and password',
    html`<h1>Sign in</h1>
${problemText(o.problem)}
<form method="post" action="${o.action}">
<label for="email">E-mail address</label>
<input id="email" name="email" type="email" autocomplete="username" autocapitalize="none" spellcheck="false" maxlength="320" required value="${o.email}"${described}>
<label for="password">Password</label>
<input id="password" name="password" type="password" autocomplete="current-password" maxlength="200" required>
<button>Sign in</button>
</form>`,
  );
}

/** Says that this provider failed. */
export function failurePage(): PageResponse {
  const text = 'The error is on our side. Go back to your app and connect again.';
  return page(messagePage({ title: 'Something went wrong', text }), { status: 500 });
}

/** `renderError` of oidc-provider. Errors that it may show to a caller have `expose`. */
export function renderError(
  ctx: KoaContextWithOIDC,
  out: { readonly error: string; readonly error_description?: string | undefined },
  error: errors.OIDCProviderError | Error,
): void {
  const isCallers = 'expose' in error && error.expose;
  const { status, headers, body } = isCallers ? callersError(out) : failurePage();
  ctx.status = status;
  ctx.set({ ...headers });
  ctx.body = body;
}

function callersError(out: { readonly error_description?: string | undefined }): PageResponse {
  if (out.error_description?.includes('session not found')) return ended();
  return badRequest('The request is not valid. Go back to your app and connect again.');
}
