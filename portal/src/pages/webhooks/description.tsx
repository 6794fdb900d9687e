import { hostOf } from './name.ts';
import { useWebhookNames } from './use-webhook-names.ts';

/** The description that a webhook has today, for a text that ends with its number: `, Warehouse (hooks.example.com)`. */
export function WebhookDescription({ id }: { readonly id: string }) {
  const { description, url } = useWebhookNames()(id);
  return description === '' ? null : `, ${description} (${hostOf(url)})`;
}
