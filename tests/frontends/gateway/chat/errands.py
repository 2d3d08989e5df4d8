"""What chat programs ask a model about a chat: prompts laid out as Open WebUI lays out its own, in words of ours.

Each takes the chat as its program would render it. `SAID` are prompts of people that look alike and are none.
"""

from __future__ import annotations


def _headed(task: str, output: str, *, gap: str = "\n") -> str:
    """A prompt in four sections, as most of them are."""
    rules = "### Guidelines:\n- Be short.\n- Use the language of the chat."
    chat = "### Chat History:\n<chat_history>\n%s\n</chat_history>"
    return gap.join([f"### Task:\n{task}", rules, f"### Output:\n{output}", chat])


_COMPLETION = """### Task:
You go on with the text in `<text>`.

### **Instructions**:
1. Read `<text>`.

### **Output Rules**:
- Answer in JSON alone: `{ "text": "<more>" }`.

### **Examples**:
#### Example 1:
Input:
<type>General</type>
<text>The tide was</text>
Output:
{ "text": "coming in." }

---
### Context:
<chat_history>
%s
</chat_history>
<type>General</type>
<text>I live in</text>
#### Output:
"""

ERRANDS = {
    "title": _headed(
        "Give this chat a name of two to four words.",
        'JSON format: { "title": "a short name" }\n### Examples:\n- { "title": "Bread" }',
    ),
    "tags": _headed("Name one to three subjects of the chat.", 'JSON format: { "tags": ["one", "two"] }', gap="\n\n"),
    "follow-ups": _headed("Propose what the user may ask next.", 'JSON format: { "follow_ups": ["One?", "Two?"] }'),
    "queries": _headed(
        "Decide what is to be searched for.", 'Strictly return in JSON format: \n{\n  "queries": ["one"]\n}', gap="\n\n"
    ),
    "image": _headed(
        "Describe the picture that is to be drawn.", 'Strictly return in JSON format:\n{\n    "prompt": "words"\n}'
    ),
    "completion": _COMPLETION,
    "a title in one's own words": "# Task\nTitle the chat.\n# Output\nThe title alone.\n<messages>\n%s\n</messages>",
    "documents": (
        '### Task:\nPropose questions.\n### Output:\n{ "suggestions": ["One?"] }\n'
        "### Document:\n<document>\n%s\n</document>"
    ),
}
SAID = {
    "retrieved documents": (
        "### Task:\nAnswer by the context.\n\n### Guidelines:\n- Cite it.\n\n### Output:\nA clear answer.\n\n"
        '<context>\n<source id="1">Opening hours</source>\n</context>\n\nI am allergic to mustard. What can I eat?'
    ),
    "sections of one's own": (
        "### Task\nI am allergic to mustard. Plan a dinner for me.\n### Output\nA list of dishes."
    ),
}
