import { commerceControls } from '../control/commerce.ts';
import { SIGN_IN_CLIENT_ID } from '../gateway-options.ts';
import { startIdentity } from '../identity/start.ts';
import { signInSecretOf } from '../memory.ts';
import type { Access, Plan } from '../parts.ts';
import type { ReportProgress } from '../steps.ts';
import { accountsOf } from './people.ts';
import { seedDemo, seedingTime } from './seed.ts';
import { createShops, type SeededShop } from './shops.ts';
import { startSink } from './sink.ts';

/** The redirect URI of the partner's demo app. */
export const PARTNER_REDIRECT_URI = 'http://127.0.0.1:7777/callback';

/** Starts the identity provider, and fills the shops unless the stack starts empty. */
export async function runDemo(
  plan: Plan,
  access: Access,
  report: ReportProgress,
): Promise<readonly SeededShop[]> {
  const { memory, stoppers } = plan;
  const { ports } = memory.memory;
  const sink = await startSink(ports.sink);
  stoppers.push(sink);
  const context = {
    pool: access.pools.gateway,
    clients: access.clients,
    memory,
    seededAt: await seedingTime(memory),
    today: plan.options.calendar ?? plan.startedAt,
    issuer: plan.authUrl,
    sinkUrl: `http://127.0.0.1:${ports.sink}/webhooks`,
    failProcessing: commerceControls(access.pools.commerce).failProcessing,
    progress: inSteps(report),
  };
  const shopIds = plan.options.demo ? await createShops(context) : [];
  await startSignIn(plan, shopIds);
  return plan.options.demo ? seedDemo(context, shopIds) : [];
}

/** Starts the bundled identity provider, unless the stack uses another issuer. */
async function startSignIn(plan: Plan, shopIds: readonly number[]): Promise<void> {
  if (plan.externalSystems.oidcIssuer) return;
  const { ports, partner, signingKey, cookieSecret } = plan.memory.memory;
  const identity = await startIdentity({
    port: ports.identity,
    issuer: plan.authUrl,
    resource: plan.baseUrl,
    partner: { ...partner, redirectUri: PARTNER_REDIRECT_URI },
    signIn: {
      clientId: SIGN_IN_CLIENT_ID,
      clientSecret: signInSecretOf(plan.memory),
      redirectUri: `${plan.baseUrl}/oauth/callback`,
    },
    accounts: accountsOf(plan.memory, shopIds),
    signingKey,
    cookieSecret,
  });
  await plan.memory.save();
  plan.stoppers.push(identity);
}

/** Reports progress in steps of 20 %, each once. */
function inSteps(report: ReportProgress): (share: number) => void {
  let reported = 0;
  return (share) => {
    const step = Math.floor(share * 5);
    if (step > reported) report(`${step * 20} %`);
    reported = Math.max(reported, step);
  };
}
