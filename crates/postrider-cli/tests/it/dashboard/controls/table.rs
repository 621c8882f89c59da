//! Which test uses which control. A control is known by the heading of its page and by its name; `{}` in a name is any text.
//! The last column is what the test's body calls it by.

const KEYBOARD: &str = "keyboard::a_record_is_resent_by_keyboard_alone";
const LINKS: &str = "overview::the_chosen_outbox_is_the_one_that_the_pages_show";
const ACCESS: &str = "access::a_token_opens_the_dashboard_and_a_wrong_one_tells_nothing";
const CUT: &str = "overview::a_cut_stream_is_said_and_mended";
const DEAD_FILTER: &str = "dead::the_filters_form_finds_the_same_and_is_cleared";
const DEAD_PAGES: &str = "dead::a_selection_is_cleared_and_belongs_to_its_page";
const DEAD_RESEND: &str = "dead::selected_records_are_resent_and_reach_the_topic";
const DEAD_DISCARD: &str = "dead::all_that_match_are_discarded_and_nothing_else";
const PAYLOAD: &str = "event::a_payload_is_shown_only_when_asked_for_and_that_is_audited";
const REPLAY: &str = "replay::a_replay_is_counted_first_watched_and_stopped";
const PARKED: &str = "parked::resending_a_keys_head_lets_the_key_go_on";
const RECORDS: &str = "records::records_are_filtered_counted_and_gone_through_page_by_page";
const READ_AGAIN: &str = "records::lists_that_do_not_follow_are_read_again";
const RECORD: &str = "event::a_dead_record_is_resent_from_its_page_which_then_shows_it_published";
const REPLAY_FORM: &str = "replay::a_replay_takes_what_was_asked_for_and_goes_where_it_was_told";

#[rustfmt::skip]
pub(super) const TESTED: &[(&str, &str, &str, &str)] = &[
    ("frame", "Skip to the content", KEYBOARD, ".skip"),
    ("frame", "Postrider", LINKS, ".brand"),
    ("frame", "Outbox", LINKS, "#outbox"),
    ("frame", "Find a record by its id", LINKS, "#find-id"),
    ("frame", "Sign out", ACCESS, "Sign out"),
    ("frame", "Theme: system", "looks::the_theme_is_the_systems_or_the_readers", "Theme: system"),
    ("frame", "Overview", LINKS, "Overview"),
    ("frame", "Dead letters", LINKS, "Dead letters"),
    ("frame", "Parked keys", LINKS, "Parked keys"),
    ("frame", "Records", LINKS, "Records"),
    ("frame", "Replay", LINKS, "Replay"),
    ("frame", "Audit", LINKS, "Audit"),
    ("frame", "Try now", CUT, "Try now"),
    ("No answer", "Try again", CUT, "Try again"),
    ("Not found", "To the overview", "overview::an_unknown_address_is_not_an_empty_page", "To the overview"),
    ("Sign in", "Token", ACCESS, "#token"),
    ("Sign in", "Sign in", ACCESS, "Sign in"),
    ("Overview", "Backlog", LINKS, "Backlog"),
    ("Overview", "Dead letters", LINKS, "Dead letters"),
    ("Overview", "Parked keys", LINKS, "Parked keys"),
    ("Dead letters", "Id", DEAD_FILTER, "[name=id]"),
    ("Dead letters", "Type", DEAD_FILTER, "[name=type]"),
    ("Dead letters", "Key", DEAD_FILTER, "[name=key]"),
    ("Dead letters", "Topic", DEAD_FILTER, "[name=topic]"),
    ("Dead letters", "Error contains", DEAD_FILTER, "[name=error]"),
    ("Dead letters", "Newer than", DEAD_FILTER, "[name=since]"),
    ("Dead letters", "Older than", DEAD_FILTER, "[name=until]"),
    ("Dead letters", "Filter", DEAD_FILTER, "Filter"),
    ("Dead letters", "Clear", DEAD_FILTER, "Clear"),
    ("Dead letters", "First page", DEAD_PAGES, "First page"),
    ("Dead letters", "Next page", DEAD_PAGES, "Next page"),
    ("Dead letters", "Clear selection", DEAD_PAGES, "Clear selection"),
    ("Dead letters", "Select all on this page", DEAD_PAGES, "Select all on this page"),
    ("Dead letters", "Select order.placed {}", DEAD_RESEND, "Select order.placed"),
    ("Dead letters", "Select the run of key {}", "dead::a_keys_run_is_resent_in_order_and_no_other_key", "Select the run of key 7"),
    ("Dead letters", "Select all {} that match", DEAD_DISCARD, "Select all 2 that match"),
    ("Dead letters", "Resend…", DEAD_RESEND, "Resend…"),
    ("Dead letters", "Discard…", DEAD_DISCARD, "Discard…"),
    ("Dead letters", "Read again", "dead::the_list_follows_what_others_do", "Read again"),
    ("Dead letters", "a record", PAYLOAD, "tbody .event"),
    ("question", "Cancel", DEAD_DISCARD, "Cancel"),
    ("question", "Resend {}", DEAD_RESEND, "Resend 2 records"),
    ("question", "Discard {}", DEAD_DISCARD, "Discard 2 records"),
    ("question", "Replay {}", REPLAY, "Replay 12 records"),
    ("Parked keys", "Resend the head of key 7", PARKED, "Resend the head of key 7"),
    ("Parked keys", "Discard the head of key 7", PARKED, "Discard the head of key 8"),
    ("Parked keys", "a record", PARKED, "tbody .event"),
    ("Records", "Id", RECORDS, "[name=id]"),
    ("Records", "Type", RECORDS, "[name=type]"),
    ("Records", "Key", RECORDS, "[name=key]"),
    ("Records", "Topic", RECORDS, "[name=topic]"),
    ("Records", "Error contains", RECORDS, "[name=error]"),
    ("Records", "Newer than", RECORDS, "[name=since]"),
    ("Records", "Older than", RECORDS, "[name=until]"),
    ("Records", "Filter", RECORDS, "Filter"),
    ("Records", "Clear", RECORDS, "Clear"),
    ("Records", "First page", RECORDS, "First page"),
    ("Records", "Next page", RECORDS, "Next page"),
    ("Records", "Count all that match", RECORDS, "Count all that match"),
    ("Records", "State", READ_AGAIN, "[name=state]"),
    ("Records", "Read again", READ_AGAIN, "Read again"),
    ("Records", "a record", LINKS, "tbody .event"),
    ("Record", "Resend…", RECORD, "Resend…"),
    ("Record", "Discard…", "event::a_dead_record_is_discarded_from_its_page", "Discard…"),
    ("Record", "Replay this one…", RECORD, "Replay this one…"),
    ("Record", "Show payload", PAYLOAD, "Show payload"),
    ("Record", "the key", LINKS, ".fields a"),
    ("Replay", "Newer than", REPLAY_FORM, "[name=since]"),
    ("Replay", "Older than", REPLAY_FORM, "[name=until]"),
    ("Replay", "Key", REPLAY_FORM, "[name=key]"),
    ("Replay", "To topic", REPLAY_FORM, "[name=to_topic]"),
    ("Replay", "Record ids", REPLAY_FORM, "[name=ids]"),
    ("Replay", "Type", REPLAY, "[name=type]"),
    ("Replay", "At most a second", REPLAY, "[name=rate]"),
    ("Replay", "Count and replay…", REPLAY, "Count and replay…"),
    ("Replay", "Stop the replay", REPLAY, "Stop the replay"),
    ("Audit", "Read again", READ_AGAIN, "Read again"),
    ("Audit", "a record", READ_AGAIN, "tbody tr:last-child .event"),
];
