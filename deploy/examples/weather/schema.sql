-- Database of the weather station. One row a reading; readings are never changed, only corrected by a later row.

CREATE TABLE sensor (
    id              INTEGER PRIMARY KEY,
    name            TEXT NOT NULL UNIQUE,          -- 'barometer', 'anemometer', 'visibility' ...
    serial          TEXT NOT NULL,
    installed_on    DATE NOT NULL,
    calibrated_on   DATE,                          -- the barometer is compared with the ferry's every spring
    height_m        REAL NOT NULL                  -- above mean high water
);

CREATE TABLE reading (
    id              INTEGER PRIMARY KEY,
    taken_at        TIMESTAMP NOT NULL,            -- universal time, on the full hour
    sent_at         TIMESTAMP,                     -- when the Institute confirmed it; NULL while waiting
    temperature_c   REAL CHECK (temperature_c BETWEEN -40 AND 45),
    humidity        REAL CHECK (humidity BETWEEN 0 AND 100),
    pressure_hpa    REAL CHECK (pressure_hpa BETWEEN 870 AND 1085),
    wind_direction  INTEGER CHECK (wind_direction BETWEEN 0 AND 359),
    wind_mps        REAL CHECK (wind_mps >= 0),
    gust_mps        REAL CHECK (gust_mps >= wind_mps),
    visibility_m    INTEGER CHECK (visibility_m >= 0),
    rain_mm         REAL CHECK (rain_mm >= 0),
    corrects        INTEGER REFERENCES reading (id),
    observer        TEXT                           -- NULL: automatic
);

CREATE UNIQUE INDEX reading_once ON reading (taken_at) WHERE corrects IS NULL;

-- Share of hours whose reading arrived within ten minutes; the contract asks for 98 per cent.
CREATE VIEW punctuality AS
SELECT strftime('%Y-%m', taken_at) AS month,
       round(100.0 * avg(sent_at IS NOT NULL AND julianday(sent_at) - julianday(taken_at) <= 10.0 / 1440), 1) AS percent_in_time,
       count(*) AS hours
  FROM reading
 WHERE corrects IS NULL
 GROUP BY month;
