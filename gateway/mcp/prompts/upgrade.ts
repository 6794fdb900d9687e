import type { Prompt } from '../prompt.ts';

export const prepareUpgrade: Prompt = {
  name: 'prepare_the_upgrade_to_2026_10',
  title: 'Prepare the upgrade to 2026-10',
  description:
    'Checks what the step from API version 2026-07 to 2026-10 means for this shop, and lists what to change.',
  permissions: ['developer.view', 'developer.manage'],
  arguments: [],
  text: () =>
    [
      'Prepare our upgrade from API version 2026-07 to 2026-10.',
      'What changes: in return details and in webhook payloads of topic return, condition.condition_category of a line is no longer a word but an object {subject, title, grade, category_name, category_parent}. grade_a to grade_d become grade a to d with category_name null; incorrect_item, missing and junk become category_name with grade null. Nothing else changes. The alias v1 stands for 2026-07.',
      '1. get_shop_context: where do both versions stand in their life cycle? list_webhooks: which version are our payloads shaped for, and which active webhooks have the topic return?',
      '2. Give me a checklist: each place that reads condition_category, over REST and in each of those webhooks by its address; how to read both shapes while we change over; how to test it; and in which order to switch. The payload version is set by the operator of this service (`npm run admin -- payload-version set`), for the whole shop at once, and counts for later events: no tool here changes it.',
      '3. Say what could still break and how we would notice. Change nothing.',
    ].join('\n'),
};
