import { loadConfig } from '../platform/config.ts';
import { parseKeyring } from '../platform/keyring.ts';
import { runMain } from '../platform/run-main.ts';
import { optionsFromConfig } from '../platform/service.ts';
import { refuseInProduction, webhooksShape } from './config.ts';
import { startWebhooks } from './start.ts';

await runMain('webhooks', async () => {
  const config = loadConfig(webhooksShape);
  refuseInProduction(config);
  const calendarDay = config.API_CALENDAR;
  return startWebhooks({
    ...optionsFromConfig(config),
    returnsTarget: config.RETURNS_TARGET,
    keyring: parseKeyring(config.WEBHOOK_KEYRING),
    allowedOrigins: config.WEBHOOK_ALLOWED_ORIGINS,
    concurrency: config.WEBHOOK_CONCURRENCY,
    shopBytesPerMinute: config.WEBHOOK_SHOP_BYTES_PER_MINUTE,
    logDays: config.WEBHOOK_LOG_DAYS,
    ...(calendarDay !== undefined && { today: () => new Date(`${calendarDay}T00:00:00Z`) }),
  });
});
