"""What the README.md of each folder of mini says: title, source and licence, how it was made."""

_DUMP = (
    "Source: the shortened dump of English Wikipedia that gensim ships with its tests (enwiki, "
    "107 articles). Licence: CC BY-SA and GFDL, the articles' authors."
)
_LEE = (
    "Source: Lee, Pincombe and Welsh (2005), as gensim ships it with its tests. No licence is "
    "stated; the stories are of the Australian Broadcasting Corporation."
)
_LENGTHS = (
    "Lengths follow the published ones over eight; every tenth of the file has those of the whole."
)
WIKIPEDIA = ("Pieces of Wikipedia articles", _DUMP, f"`group` is the article. {_LENGTHS}")
NEWS = ("Pieces of news stories, none filed twice", _LEE, f"`group` is the story. {_LENGTHS}")
PASSAGES = ("Passages of Wikipedia articles", _DUMP)
COPIES = (
    "Passages, and texts that borrow from them, obfuscated",
    _DUMP,
    "`group` is the article, of a text that borrows the one it borrows from.",
    "A text borrows stretches of three passages. Content words are replaced by words whose token "
    "embeddings in all-MiniLM-L6-v2 are close, and are lost where there is none. Half of the "
    "function words and a fifth of the others are lost, and words change places with those beside "
    "them. So a copy shares hardly a content word with its source. The task measures whether an "
    "embedding recognises a passage in other words; it does not measure whether two texts have "
    "words in common.",
)
SENTENCES = (
    "Review sentences",
    "Source: Pang and Lee (2005), as gensim ships them with its tests. No licence is stated.",
)
STORIES = ("News stories and how similar people find them", _LEE)
TASKS = (
    "The eight mini tasks: real text from gensim's files in the roles of the thesis' eight.\n\n"
    "Long is above the structural teacher's limit; each task has about the share of Table 5.4 "
    'above it. A plain "X" masks in all passages the title of any article that tasks use, and '
    "every longer word of the passage's own title.\n\n"
    "Pair tasks are cross-validated: `train.jsonl` holds the pairs of Chapter 4, `test.jsonl` "
    "those of Chapter 5, with other passages. Each has five blocks of articles, and both texts of "
    "a pair are of one block. So every article is tested once, by heads that never saw it."
)
