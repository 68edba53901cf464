// An iCalendar file on stdin as ical.js understands it, on stdout as JSON; see tests/appointments/calendar_readers.py.
import { readFileSync } from "node:fs";
import ICAL from "ical.js";

const calendar = new ICAL.Component(ICAL.parse(readFileSync(0, "utf8")));
const instant = (time) => time.toJSDate().toISOString();
const entries = calendar.getAllSubcomponents("vevent").map((component) => {
  const event = new ICAL.Event(component);
  return {
    uid: event.uid,
    sequence: event.sequence,
    status: component.getFirstPropertyValue("status"),
    title: event.summary,
    start_at: instant(event.startDate),
    end_at: instant(event.endDate),
    told_at: instant(component.getFirstPropertyValue("dtstamp")),
    alarm_minutes: component
      .getAllSubcomponents("valarm")
      .map((alarm) => -alarm.getFirstPropertyValue("trigger").toSeconds() / 60),
  };
});
process.stdout.write(JSON.stringify(entries));
