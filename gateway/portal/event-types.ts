import { TOPIC_SHAPES } from '../../services/contract/topics/topics.ts';
import { TRIGGER_TEXTS } from '../../services/contract/topics/trigger-texts.ts';
import { TOPICS, TRIGGERS } from '../../services/contract/vocabulary.ts';

/** The topics with the triggers that each delivers, and all triggers, in the order of the interface. */
export function eventTypes() {
  return {
    topics: TOPICS.map((topic) => {
      const { about, triggers } = TOPIC_SHAPES[topic];
      return { topic, description: about, delivers: [...triggers] };
    }),
    triggers: TRIGGERS.map((name) => ({ name, description: TRIGGER_TEXTS[name][0] })),
  };
}
