import {
  type CompleteShopifyInstallResponse,
  ShopifyInstallProblem as Problem,
} from '../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { messagePage } from '../oauth/pages/pages.ts';
import { type PageResponse, page, unavailable } from '../oauth/pages/response.ts';

const AGAIN = 'Open the install link again.';

/** The page after a complete install, and after one that did not continue. */
export function resultPage(result: CompleteShopifyInstallResponse): PageResponse {
  if (result.problem !== Problem.UNSPECIFIED) return problemPage(result.problem, result);
  const text = `${result.shopDomain} is connected to shop no. ${result.connectedShopId}. You can close this page.`;
  return page(messagePage({ title: 'Your store is connected', text }));
}

/** A page that says why an install did not continue, and what to do. */
export function problemPage(
  problem: Problem,
  about: Pick<CompleteShopifyInstallResponse, 'shopDomain' | 'missingScopes'>,
): PageResponse {
  if (problem === Problem.EXCHANGE) return unavailable(`Shopify does not answer. ${AGAIN}`);
  const { status, title, text } = PAGES.get(problem) ?? UNKNOWN;
  const full = text
    .replaceAll('{domain}', () => about.shopDomain)
    .replaceAll('{scopes}', () => about.missingScopes.join(', '));
  return page(messagePage({ title, text: full }), { status });
}

/** The returns service is unavailable, or did not answer in time. Then the install may be complete. */
export function laterPage(): PageResponse {
  return unavailable(
    'Reload this page in a moment. If it then says that the install has ended, open the install link again.',
  );
}

type PageText = { readonly status: number; readonly title: string; readonly text: string };

const UNKNOWN: PageText = { status: 500, title: 'Something went wrong', text: AGAIN };

const PAGES: ReadonlyMap<Problem, PageText> = new Map([
  [
    Problem.NOT_CONFIGURED,
    {
      status: 404,
      title: 'Shopify is not set up here',
      text: 'The operator of this service has to set up its Shopify app first.',
    },
  ],
  [
    Problem.LINK,
    {
      status: 400,
      title: 'This link does not work',
      text: 'The install link has expired, was used already, or is not complete. Ask the operator of this service for a new one.',
    },
  ],
  [
    Problem.SIGNATURE,
    {
      status: 400,
      title: 'This request is not valid',
      text: `Shopify did not sign it, or it was changed on its way. ${AGAIN}`,
    },
  ],
  [
    Problem.STATE,
    {
      status: 400,
      title: 'This install has ended',
      text: 'It took too long, was used already, or began in another browser. Open the install link again in this browser, or ask the operator of this service for a new one.',
    },
  ],
  [
    Problem.DOMAIN,
    {
      status: 400,
      title: 'This is another store',
      text: 'The install link is for {domain}. Sign in to that store at Shopify, and open the link again.',
    },
  ],
  [
    Problem.DENIED,
    {
      status: 403,
      title: 'Your store is not connected',
      text: 'Shopify says that the access was not allowed. To connect the store, open the install link again.',
    },
  ],
  [
    Problem.SCOPES,
    {
      status: 403,
      title: 'More access is needed',
      text: '{domain} did not give the app these scopes: {scopes}. Open the install link again, and allow all of them. If Shopify does not show them, ask the operator of this service.',
    },
  ],
  [
    Problem.DOMAIN_TAKEN,
    {
      status: 409,
      title: 'This store is connected already',
      text: '{domain} is connected to another shop of this service. Ask the operator of this service.',
    },
  ],
  [
    Problem.UNKNOWN_OUTCOMES,
    {
      status: 409,
      title: 'Your store cannot be connected yet',
      text: 'A refund, an order or a gift card was requested of the present platform of the shop, and its answer is not known yet. Open the install link again when the returns of the shop are processed.',
    },
  ],
]);
