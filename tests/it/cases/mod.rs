//! Reports from practice, each as a request to a real API server by a real identity, with the answer that it should
//! have got.
//!
//! The scenarios are older than the design: where its defaults say something else, the test names the setting that
//! says what the report expects. What is no decision about a write is listed in [`ELSEWHERE`].

mod apply;
mod controllers;
mod lists;
mod managers;
mod policies;
mod pools;
mod webhook;

/// Parts of the list of scenarios and how many each has.
pub const PARTS: [(char, usize, &str); 5] = [
    ('a', 20, "several controllers on one resource"),
    ('b', 34, "server-side apply and field managers"),
    ('c', 37, "admission webhooks in production"),
    ('d', 23, "autoscalers and node pools"),
    ('e', 15, "who changed it, and how to lock it"),
];

/// Scenarios that no answer to a write shows, by what they are about.
pub const ELSEWHERE: [(&str, &str); 5] = [
    (
        "how controllers write",
        "A01 A02 A03 A04 A05 A06 A07 A09 A11 A12 A13 A14 A15 A17 A18 A19 A20 B04 C34 D01 D02 D03 D04 D05 D06 D07 D08 \
         D09 D10 D11 D12 D13 D14 D15 D16 D17 D18 D19 D20 D21 D22",
    ),
    ("an audit of stored objects", "B05 B08 B14 B22 B25 B31 B34 C21 E01 E02 E03 E04 E05 E06 E09 E10 E11"),
    ("installation and removal", "C05 C06 C07 C08 C09 C12 C15 C18 C19 C23 C28 C29 C33 C36 C37"),
    ("certificates", "C10 C11 C13 C14"),
    ("the server under load", "B29 C20 C22 C24 C32"),
];
