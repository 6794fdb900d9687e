import type { errors, KoaContextWithOIDC } from 'oidc-provider';
import { messagePage } from '../../../gateway/oauth/pages/pages.ts';
import { ended, type PageResponse, page } from '../../../gateway/oauth/pages/response.ts';
import { errorPage } from './pages.ts';

/** Maximum length of a shown parameter. Characters. */
const SHOWN_MAX = 200;

const TELL_THE_APP =
  'Nothing was allowed. Go back to the app, and tell its makers what this page says.';

/** Title and text by error code. */
const EXPLAINED: ReadonlyMap<string, readonly [string, string]> = new Map([
  [
    'invalid_client',
    ['This app is not known here', 'No app with this client id is registered at this service.'],
  ],
  [
    'invalid_redirect_uri',
    [
      'The address of the app is not registered',
      'The app asks to return to an address that is not registered for it. It must send a registered redirect_uri, character by character.',
    ],
  ],
]);

/** Explains an error of `/authorize` that cannot be returned to the app (RFC 6749, 4.1.2.1). */
function explainError(
  ctx: KoaContextWithOIDC,
  out: { readonly error: string; readonly error_description?: string | undefined },
): PageResponse {
  if (out.error_description?.includes('session not found')) return ended();
  const [title, text] = EXPLAINED.get(out.error) ?? [
    'This link does not work',
    'The request of the app is not valid.',
  ];
  const sent = [
    ['Client id', ctx.query.client_id],
    ['Return address', ctx.query.redirect_uri],
    ['Error', [out.error, out.error_description].filter(Boolean).join(': ')],
  ].flatMap(([name, value]) =>
    typeof value === 'string' && value !== ''
      ? [[String(name), value.slice(0, SHOWN_MAX)] as const]
      : [],
  );
  return page(errorPage({ title, text: `${text} ${TELL_THE_APP}`, sent }), { status: 400 });
}

/** Says that this provider failed. */
export function failurePage(): PageResponse {
  const text = 'The error is on our side. Go back to your app and connect again.';
  return page(messagePage({ title: 'Something went wrong', text }), { status: 500 });
}

/** `renderError` of oidc-provider. Errors that it may show to a caller have `expose`. */
export function renderError(
  ctx: KoaContextWithOIDC,
  out: Parameters<typeof explainError>[1],
  error: errors.OIDCProviderError | Error,
): void {
  const isCallers = 'expose' in error && error.expose;
  const { status, headers, body } = isCallers ? explainError(ctx, out) : failurePage();
  ctx.status = status;
  ctx.set({ ...headers });
  ctx.body = body;
}
